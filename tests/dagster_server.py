"""A real Dagster deployment for tests: web server, daemon and code server, as ``contextgrid-dagster ui`` starts it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

START_SECONDS = 120
_COMMAND = "from contextgrid_dagster.cli import main; main()"
_LOCATIONS = """
query { workspaceOrError { __typename
  ... on Workspace { locationEntries { name loadStatus
    locationOrLoadError { __typename ... on PythonError { message }
      ... on RepositoryLocation { repositories { name } } } } } } }
"""


@dataclass(frozen=True)
class DagsterServer:
    """A running deployment of one experiment.

    Attributes:
        url: the root of its web server.
        experiment: the experiment file that is loaded.
        log: where all of its processes write.
        process: ``dagster dev``, leader of a process group of its own.
    """

    url: str
    experiment: Path
    log: Path
    process: subprocess.Popen[bytes]

    def graphql(self, query: str, **variables: Any) -> dict[str, Any]:
        """The data that a GraphQL query returns; fails on an error of the server."""
        content = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", content, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                answer = json.load(reply)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error
        assert not answer.get("errors"), answer["errors"]
        data: dict[str, Any] = answer["data"]
        return data

    def repository(self) -> dict[str, str]:
        """The selector of the experiment's repository: its name and the name of its code location."""
        (location,) = self.graphql(_LOCATIONS)["workspaceOrError"]["locationEntries"]
        (repository,) = location["locationOrLoadError"]["repositories"]
        return {"repositoryName": repository["name"], "repositoryLocationName": location["name"]}

    def until(self, found: Callable[[], T], seconds: float, what: str) -> T:
        """What ``found`` returns once that is true, asked every quarter of a second; fails after some seconds."""
        deadline = time.monotonic() + seconds
        while not (result := found()):
            assert self.process.poll() is None, f"the server ended: {self.tail()}"
            assert time.monotonic() < deadline, f"{what}: not within {seconds} seconds\n{self.tail()}"
            time.sleep(0.25)
        return result

    def tail(self) -> str:
        """The last lines that the deployment wrote."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-40:])

    def is_loaded(self) -> bool:
        """Whether the web server answers and has loaded the experiment."""
        try:
            entries = self.graphql(_LOCATIONS)["workspaceOrError"]["locationEntries"]
        except OSError:
            return False
        for entry in entries:
            found = entry["locationOrLoadError"] or {}
            assert found.get("__typename") != "PythonError", found["message"]
        return bool(entries) and all(entry["loadStatus"] == "LOADED" for entry in entries)


@contextmanager
def dagster_server(file: Path, environment: Mapping[str, str] | None = None) -> Iterator[DagsterServer]:
    """``contextgrid-dagster ui FILE`` on a free port, from loaded until all of its processes have ended.

    Args:
        file: the experiment file. Without ``DAGSTER_HOME`` in ``environment`` the experiment's own home is used.
        environment: set for the server in addition to this process's own environment, of which ``DAGSTER_HOME`` and
            ``CONTEXTGRID_*`` are left out.
    """
    port = _free_port()
    log = file.parent / "dagster-dev.log"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DAGSTER_", "CONTEXTGRID_"))}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND, "ui", str(file), "--port", str(port)],
            env={**inherited, "DAGSTER_DISABLE_TELEMETRY": "yes", **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = DagsterServer(f"http://127.0.0.1:{port}", file, log, process)
    try:
        server.until(server.is_loaded, START_SECONDS, "the web server has loaded the experiment")
        yield server
    finally:
        _stop(process)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask as Ctrl-C does, then end whatever of the group is left."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(30)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
