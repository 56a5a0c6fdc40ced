"""``ui``: Dagster's web server and daemon for an experiment."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import Annotated

import typer

from contextgrid.core.errors import ConfigError
from contextgrid_dagster.commands.common import ExperimentFile, KeyPrefix, console, opened

_ADVICE_TO_TYPE_DG = "ignore:Function `dev_command` is superseded"


def ui(
    file: ExperimentFile,
    port: Annotated[int, typer.Option(help="Port of the web server.")] = 3000,
    host: Annotated[str, typer.Option(help="Address it listens on.")] = "127.0.0.1",
    key_prefix: KeyPrefix = None,
) -> None:
    """Start Dagster's web server and daemon on the same instance that plan and materialize use."""
    from contextgrid_dagster.terminal import print_addresses

    _refuse_taken(host, port)
    with opened(file, key_prefix) as (graph, instance):
        home = instance.root_directory
        path = graph.experiment.path
        print_addresses(console, graph, f"http://{host}:{port}")
    environment = os.environ | {
        "DAGSTER_HOME": home,
        "CONTEXTGRID_EXPERIMENT": str(path),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        # For people who type dagster dev; nobody did here.
        "PYTHONWARNINGS": ",".join(filter(None, (os.environ.get("PYTHONWARNINGS"), _ADVICE_TO_TYPE_DG))),
    }
    if key_prefix:
        environment["CONTEXTGRID_KEY_PREFIX"] = key_prefix
    command = [sys.executable, "-m", "dagster", "dev", "--host", host, "--port", str(port)]
    command += ["--module-name", "contextgrid_dagster.definitions", "--attribute", "defs"]
    # A shell that starts this in the background ignores both; Dagster's processes would inherit that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.execve(sys.executable, command, environment)


def _refuse_taken(host: str, port: int) -> None:
    """Say so before Dagster has started half of its processes."""
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        problem = os.strerror(error.errno or 0)
        raise ConfigError(f"cannot listen on {host}:{port} ({problem}); choose another with --port") from None
