"""Executing a plan with workers: everything that is ready is under way at once."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from contextgrid_dagster.executor import Execution, Outcome
from contextgrid_dagster.graph import Node
from contextgrid_dagster.planner import Plan, Step
from contextgrid_dagster.runs import Order

if TYPE_CHECKING:
    from contextgrid_dagster.workers.pool import Pool

_LOOK_EVERY = 0.5  # seconds after which an interruption is noticed while workers work


def spread(
    execution: Execution,
    pool: Pool,
    started: Callable[[Step], None] | None,
    asked_to_stop: Callable[[], bool],
) -> Iterator[Outcome]:
    """Bring a plan up to date; the outcomes come in the order in which partitions are finished.

    A partition is handed out as soon as all that it is built from is settled. What the pool does not take is built
    in this process, one after the other, while the workers work on.

    Raises:
        KeyboardInterrupt: if the process is asked to stop.
    """
    queue = _Queue(execution.plan)
    here: list[tuple[int, Order]] = []
    while queue.unsettled:
        for step in queue.ready():
            if started is not None:
                started(step)
            decided = execution.decide(step)
            if isinstance(decided, Outcome):
                queue.settle(step.node)
                yield execution.settle(decided)
            elif pool.takes(step.node):
                pool.submit(decided)
            else:
                heapq.heappush(here, (queue.position(step.node), decided))
        if here:
            order = heapq.heappop(here)[1]
            finished = [(order, execution.build(order)), *pool.finished(0)]
        else:
            finished = pool.finished(_LOOK_EVERY)
        if asked_to_stop():
            raise KeyboardInterrupt
        for order, built in finished:
            queue.settle(order.node)
            yield execution.settle(execution.outcome(order, built))


class _Queue:
    """The pending partitions of a plan, each ready when everything pending that it is built from is settled."""

    def __init__(self, plan: Plan) -> None:
        self._steps = plan.pending
        self._position = {step.node: position for position, step in enumerate(self._steps)}
        self._children: dict[Node, list[Node]] = {step.node: [] for step in self._steps}
        self._waits_for: dict[Node, int] = {}
        for node in self._position:
            parents = {parent for group in plan.graph.parents(node).values() for parent in group}
            pending = [parent for parent in parents if parent in self._position]
            self._waits_for[node] = len(pending)
            for parent in pending:
                self._children[parent].append(node)
        self._ready = [position for node, position in self._position.items() if not self._waits_for[node]]
        self.unsettled = len(self._steps)

    def ready(self) -> Iterator[Step]:
        """The partitions that became ready, those that the plan has first coming first."""
        while self._ready:
            yield self._steps[heapq.heappop(self._ready)]

    def position(self, node: Node) -> int:
        """Where the plan has a partition."""
        return self._position[node]

    def settle(self, node: Node) -> None:
        """Note that nothing more will become of a partition."""
        self.unsettled -= 1
        for child in self._children[node]:
            self._waits_for[child] -= 1
            if not self._waits_for[child]:
                heapq.heappush(self._ready, self._position[child])
