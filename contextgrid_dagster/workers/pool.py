"""The partitions that workers have in hand, and what becomes of them when a worker or the scheduler is lost."""

from __future__ import annotations

import queue
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dagster import DagsterInstance

from contextgrid.models.calls import is_free
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.runs import Built, Order
from contextgrid_dagster.workers.worker import WORKER_LOST, Site, build_here, close_unfinished

if TYPE_CHECKING:
    from distributed import Client, Future

_LOOK_SECONDS = 10  # after which a pool that gave nothing is looked at
# Workers may be on machines that have yet to start.
JOIN_SECONDS = 120
_MOST_TIMES = 10  # that a partition is handed out again after losses of workers that had not begun it


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
        model = self._graph.experiment.matrix.column(str(node.partition).partition("|")[0]).model
        return node.asset == "answers" and model is not None and is_free(model)

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
        if self._gone is None and self._in_hand and time.monotonic() - self._seen > _LOOK_SECONDS:
            if self._client.status != "running":
                self._gone = f"the scheduler at {self._address} went away"
            elif self._client.scheduler_info()["workers"]:
                self._seen = time.monotonic()
            elif time.monotonic() - self._seen > JOIN_SECONDS:
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
