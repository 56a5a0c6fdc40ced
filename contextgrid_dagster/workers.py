"""Workers elsewhere: other processes of this machine, or of others, that build partitions under a Dask scheduler.

The unit of work is one partition in one run, as in a single process; Dask only says where. Everything that is
common stays in this process: the plan, early cutoff, the report, the inputs (which read local files), and what calls a
paid model or service, because budget, limits per provider and shared replies hold within one process.
"""

from __future__ import annotations

import logging
import queue
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dagster import DagsterInstance

from contextgrid.core.errors import ConfigError
from contextgrid.generate.judging import OFFLINE
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.runs import Built, Order
from contextgrid_dagster.worker import (
    WORKER_LOST,
    Site,
    build_here,
    close_unfinished,
    problem_here,
    records_of,
    software,
)

if TYPE_CHECKING:
    from distributed import Client, Future

_ADDRESS = re.compile(r"[a-z]+://[^\s/]+:\d+/?")
_CONNECT_SECONDS = 10
# Workers may be on machines that have yet to start.
_JOIN_SECONDS = 120
_MOST_TIMES = 10  # that a partition is handed out again after losses of workers that had not begun it


@contextmanager
def open_pool(graph: GridGraph, instance: DagsterInstance, workers: str) -> Iterator[Pool]:
    """Workers that are ready to build the partitions of a graph.

    Args:
        workers: address of a Dask scheduler (``tcp://host:8786``), or a number of processes to start on this machine.

    Raises:
        ConfigError: if there is no scheduler, no worker joins, or one of them cannot do the work: it has other
            versions, or sees another store or another Dagster instance.
    """
    try:
        import distributed
    except ImportError:
        raise ConfigError("workers need Dask: pip install 'contextgrid-dagster[dask]'") from None
    if instance.is_ephemeral:
        raise ConfigError("workers need a Dagster instance that is kept in a database, not in memory")
    number = int(workers) if workers.strip().isdecimal() else None
    if number == 0 or (number is None and not _ADDRESS.fullmatch(workers.strip())):
        raise ConfigError(
            f"workers {workers!r}: give the address of a Dask scheduler, as in tcp://host:8786, or the number of"
            " processes to start on this machine"
        )
    pool: Pool | None = None
    try:
        with _cluster(number) if number else _no_cluster(workers.strip()) as address, ExitStack() as stack:
            client = stack.enter_context(_client(distributed, address))
            site = stack.enter_context(_site(graph, instance))
            _refuse_unfit(client, address, site)
            pool = Pool(graph, instance, site, client, address)
            stack.callback(pool.withdraw)
            yield pool
    finally:
        if number and pool is not None:
            pool.write_off("interrupted")  # its process was stopped with the others of this machine


@dataclass(frozen=True)
class _Task:
    """A partition that was handed out, how many times before, and what its runs are found by."""

    order: Order
    submission: str
    times: int = 0


class Pool:
    """Workers, and the partitions that they have in hand.

    A worker that is lost is Dask's affair: it gives the partition to another, which closes the run that was left
    behind. A partition over which several workers were lost fails.
    """

    def __init__(self, graph: GridGraph, instance: DagsterInstance, site: Site, client: Client, address: str) -> None:
        self._graph, self._instance, self._site = graph, instance, site
        self._client, self._address = client, address
        self._in_hand: dict[Future, _Task] = {}
        self._done: queue.SimpleQueue[Future] = queue.SimpleQueue()
        self._gone: str | None = None
        self._seen = time.monotonic()

    def takes(self, node: Node) -> bool:
        """Whether a partition can be built on a worker: it reads no local file and calls no paid model."""
        if not self._graph.parents(node):
            return False
        if not self._graph.calls_model(node):
            return True
        column = str(node.partition).partition("|")[0]
        return node.asset == "answers" and str(self._graph.experiment.matrix.column(column).model).startswith(OFFLINE)

    def submit(self, order: Order) -> None:
        """Have a partition built."""
        self._hand_out(_Task(order, str(uuid.uuid4())))

    def finished(self, timeout: float) -> list[tuple[Order, Built]]:
        """What was finished meanwhile; if nothing was, what is finished within ``timeout`` seconds."""
        found: list[Future] = []
        try:
            found.append(self._done.get(timeout=timeout) if timeout else self._done.get_nowait())
            while True:
                found.append(self._done.get_nowait())
        except queue.Empty:
            pass
        if found:
            self._seen = time.monotonic()
            taken = [self._taken(future) for future in found if future in self._in_hand]
            return [one for one in taken if one is not None]
        return self._abandoned() if self._is_gone() else []

    def withdraw(self) -> None:
        """Take back what no worker has begun. A run that is under way ends by itself."""
        for future in self._in_hand:
            future.cancel()

    def _hand_out(self, task: _Task) -> None:
        key = f"{task.order.node}-{task.submission}-{task.times}"
        future = self._client.submit(_build_on_worker, self._site, task.order, task.submission, key=key, pure=False)
        self._in_hand[future] = task
        future.add_done_callback(self._done.put)

    def _taken(self, future: Future) -> tuple[Order, Built] | None:
        """What a task gave; ``None`` if it is handed out again."""
        from distributed import KilledWorker

        task = self._in_hand.pop(future)
        if future.status == "finished":
            built: Built = future.result()
            return task.order, built
        error = future.exception() if future.status == "error" else None
        if isinstance(error, KilledWorker):
            losses = error.allowed_failures + 1
            reason = f"{WORKER_LOST}, {losses} times in a row; it may need more memory than a worker has"
            # Dask blames all that waited for the lost workers, too.
            begun = close_unfinished(self._instance, task.submission, WORKER_LOST)
            if begun < losses and task.times < _MOST_TIMES:
                self._hand_out(replace(task, times=task.times + 1))
                return None
        elif error is not None:
            reason = f"{type(error).__name__}: {error}"
        else:
            reason = f"the scheduler at {self._address} gave it up"
        close_unfinished(self._instance, task.submission, reason)
        return task.order, Built(reason=reason)

    def _is_gone(self) -> bool:
        """Whether nobody is left who could finish what is in hand."""
        if self._gone is None and self._in_hand and time.monotonic() - self._seen > _CONNECT_SECONDS:
            if self._client.status != "running":
                self._gone = f"the scheduler at {self._address} went away"
            elif self._client.scheduler_info()["workers"]:
                self._seen = time.monotonic()
            elif time.monotonic() - self._seen > _JOIN_SECONDS:
                self._gone = f"no worker is left at {self._address}"
        return self._gone is not None

    def _abandoned(self) -> list[tuple[Order, Built]]:
        return [(order, Built(reason=self._gone)) for order in self.write_off(str(self._gone))]

    def write_off(self, cause: str) -> list[Order]:
        """Record the runs that nobody will finish as failed; returns what was in hand."""
        left = [*self._in_hand.values()]
        self._in_hand.clear()
        for task in left:
            close_unfinished(self._instance, task.submission, cause)
        return [task.order for task in left]


def _build_on_worker(site: Site, order: Order, submission: str) -> Built:
    from distributed import get_worker

    return build_here(site, order, submission, str(get_worker().name))


@contextmanager
def _cluster(number: int) -> Iterator[str]:
    """Worker processes of this machine, under a scheduler that only this machine reaches."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=number,
        threads_per_worker=1,
        # Dask would serve its state to the whole network.
        dashboard_address="127.0.0.1:0",
        worker_dashboard_address="127.0.0.1:0",
        # A worker that Dask stops for its memory is started again for the same work; the machine decides instead.
        memory_limit=0,
        silence_logs=logging.CRITICAL,
        # Ctrl-C in a terminal reaches every process; they are stopped by this one.
        preload="import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)",
    ) as cluster:
        yield cluster.scheduler_address


@contextmanager
def _no_cluster(address: str) -> Iterator[str]:
    yield address


@contextmanager
def _client(distributed: Any, address: str) -> Iterator[Client]:
    try:
        client = distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"no Dask scheduler answers at {address} ({type(error).__name__}); start one with: dask scheduler"
        ) from None
    with client:
        yield client


@contextmanager
def _site(graph: GridGraph, instance: DagsterInstance) -> Iterator[Site]:
    token = uuid.uuid4().hex
    marker = graph.tables.folder / f".{token}.workers"
    graph.tables.make_directory(marker.parent)
    graph.tables.write(marker, b"")
    try:
        yield Site(
            token=token,
            experiment=graph.experiment,
            storage=graph.storage,
            marker=marker.path,
            key_prefix=graph.declaration.key_prefix,
            instance=instance.get_ref(),
            home=instance.root_directory,
            records=records_of(instance),
            software=software(),
        )
    finally:
        graph.tables.fs.rm_file(marker.path)


def _refuse_unfit(client: Client, address: str, site: Site) -> None:
    try:
        client.wait_for_workers(1, timeout=_JOIN_SECONDS)
    except TimeoutError:
        raise ConfigError(
            f"no worker joined the scheduler at {address} within {_JOIN_SECONDS} s; start some with:"
            f" dask worker {address} --nthreads 1"
        ) from None
    workers = list(client.scheduler_info()["workers"])
    asked = {
        worker: client.submit(problem_here, site, workers=[worker], key=f"ready-{uuid.uuid4()}", pure=False)
        for worker in workers
    }
    for worker, future in asked.items():
        error = future.exception()
        problem = f"cannot work: {type(error).__name__}: {error}" if error is not None else future.result()
        if problem is not None:
            raise ConfigError(f"worker {worker} {problem}")
