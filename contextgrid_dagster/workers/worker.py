"""What happens on a worker: one partition is built there, from the store, in a run that the common instance records."""

from __future__ import annotations

import importlib.metadata
import sys
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dagster import DagsterInstance
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.runs import SqlRunStorage

from contextgrid.core.fingerprint import hash_bytes
from contextgrid_dagster.graph import GridGraph
from contextgrid_dagster.instance import dagster_home, keep_connections
from contextgrid_dagster.runs import Built, Order, build

if TYPE_CHECKING:
    from contextgrid.grid.experiment import Experiment

WORKER_TAG = "contextgrid/worker"
WORKER_LOST = "its worker was lost"
# What a stage's result can depend on, beside the code of this project.
_PACKAGES = (
    "dagster",
    "pyarrow",
    "numpy",
    "scipy",
    "scikit-learn",
    "bm25s",
    "semantic-text-splitter",
    "wordllama",
    "rapidfuzz",
    "pypdfium2",
    "selectolax",
)


@dataclass(frozen=True)
class Site:
    """All that a worker needs to know, whatever machine it is on; it reads no file of the experiment.

    Attributes:
        token: tells this execution from others.
        experiment: the experiment as it was loaded.
        storage: where results are, as a folder or URL.
        marker: path of a file there, to see whether the worker sees the same store.
        key_prefix: first part of every asset key.
        instance: how the Dagster instance is opened; environment variables in it are read on the worker.
        home: the ``DAGSTER_HOME`` it was opened from.
        records: identifies the instance's database.
        software: versions that have to be the same.
    """

    token: str
    # Neither prompts nor addresses belong in the log of a worker, which shows the arguments of a failed task.
    experiment: Experiment = field(repr=False)
    storage: str = field(repr=False)
    marker: str
    key_prefix: str | None
    instance: InstanceRef = field(repr=False)
    home: str
    records: str | None
    software: Mapping[str, str] = field(repr=False)


def problem_here(site: Site) -> str | None:
    """Why this process cannot work on a site, in words that say what to do; ``None`` if it can."""
    problem = _software_problem(site)
    if problem is not None:
        return problem
    try:
        return _workshop(site).problem
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told once and by name
        return f"cannot open the store and the Dagster instance: {type(error).__name__}: {error}"


def build_here(site: Site, order: Order, submission: str, worker: str) -> Built:
    """Build a partition. If a worker was lost over the same submission, the run it left behind is closed first."""
    # One partition at a time, however many threads the worker has: stages use all of a processor.
    with _one_at_a_time:
        problem = problem_here(site)
        if problem is not None:
            return Built(reason=f"worker {worker} {problem}")
        shop = _workshop(site)
        attempt = close_unfinished(shop.instance, submission, WORKER_LOST)
        run_id = run_id_of(submission, attempt)
        return build(shop.graph, shop.instance, order, run_id=run_id, tags={WORKER_TAG: worker})


def records_of(instance: DagsterInstance) -> str | None:
    """Identifies the database of an instance; ``None`` for storages that have no identity."""
    storage = instance.run_storage
    return storage.get_run_storage_id() if isinstance(storage, SqlRunStorage) else None


def run_id_of(submission: str, attempt: int) -> str:
    """The run id of an attempt, which whoever knows the submission can find again."""
    return str(uuid.uuid5(uuid.UUID(submission), str(attempt)))


def close_unfinished(instance: DagsterInstance, submission: str, cause: str) -> int:
    """Record the runs of a submission that never ended as failed; returns how many attempts there were."""
    attempt = 0
    while (run := instance.get_run_by_id(run_id_of(submission, attempt))) is not None:
        if not run.is_finished:
            instance.report_run_failed(run, cause)
        attempt += 1
    return attempt


@cache
def software() -> Mapping[str, str]:
    """What this process runs: Python, the packages that results depend on, and a hash of this project's code."""
    found = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "none"
    return {**found, "contextgrid": _code_hash()}


def _code_hash() -> str:
    here = Path(__file__).parents[1]
    files = sorted(file for room in (here, here.parent / "contextgrid") for file in room.rglob("*.py"))
    return hash_bytes(b"".join(hash_bytes(file.read_bytes()).encode() for file in files))


def _software_problem(site: Site) -> str | None:
    own = software()
    for package, version in site.software.items():
        if own.get(package) != version:
            if package == "contextgrid":
                return "runs other code of contextgrid than this process; install the same version on both"
            return (
                f"has {package} {own.get(package)} where this process has {version}; install the same versions on"
                " both (constraints.txt)"
            )
    return None


class _Workshop:
    """The graph and the instance of a site, opened in this process."""

    def __init__(self, site: Site) -> None:
        self.token = site.token
        self.graph = GridGraph(site.experiment, site.storage, site.key_prefix)
        self.instance = _instance(site)
        self.problem = self._problem(site)

    def _problem(self, site: Site) -> str | None:
        if records_of(self.instance) != site.records:
            return "opens another Dagster database; give it the same environment as this process"
        if not self.graph.tables.fs.exists(site.marker):
            return (
                f"does not see the store {site.storage}; set CONTEXTGRID_STORAGE to a URL that every machine reaches,"
                " such as s3://bucket/prefix"
            )
        return None


_one_at_a_time = threading.RLock()
_open: list[_Workshop] = []
_instances: list[tuple[InstanceRef, DagsterInstance]] = []


def _workshop(site: Site) -> _Workshop:
    """The one workshop that is kept, for executions follow each other."""
    with _one_at_a_time:
        if not _open or _open[0].token != site.token:
            _open[:] = [_Workshop(site)]
        return _open[0]


def _instance(site: Site) -> DagsterInstance:
    """The one instance that is kept, with its connections, for most executions share it."""
    if not _instances or _instances[0][0] != site.instance:
        for _, other in _instances:
            other.dispose()
        with dagster_home(site.home):
            _instances[:] = [(site.instance, DagsterInstance.from_ref(site.instance))]
        keep_connections(_instances[0][1])
    return _instances[0][1]
