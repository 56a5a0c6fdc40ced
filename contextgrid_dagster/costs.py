"""The calls to models that a plan needs, and what they would cost. No model is called to find out."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa

from contextgrid import stages
from contextgrid.core.errors import ContextGridError
from contextgrid.generate.judging import Memory
from contextgrid.grid.costs import Estimate, Estimator, describe
from contextgrid.grid.rehearsal import made_up_answer, made_up_verdict, stand_in
from contextgrid.grid.runner import Runner
from contextgrid.models.purpose import no_calls
from contextgrid_dagster.assets.declaration import CALL_MODELS
from contextgrid_dagster.assets.inputs import evalset_table, generation_spec_table
from contextgrid_dagster.graph import Node
from contextgrid_dagster.planner import Plan


def describe_costs(plan: Plan) -> list[str]:
    """Calls and dollars that the pending partitions of a plan need, net of what the ledger holds, in words."""
    try:
        with no_calls():
            estimate = estimate_plan(plan)
    except ContextGridError as error:
        return [f"their number is not known: {error}"]
    said = describe(estimate, plan.graph.experiment.run.call_settings)
    retrieval = [step for step in plan.pending if step.node.asset not in CALL_MODELS]
    if any(plan.graph.calls_model(step.node) for step in retrieval):
        said.append("calls that embed or rerank passages are not counted")
    return said or ["no paid calls"]


def estimate_plan(plan: Plan) -> Estimate:
    """What the pending partitions of a plan need. Passages that are not up to date are retrieved in memory.

    Raises:
        ContextGridError: if documents, questions or prompts cannot be read, or something fails on the way.
    """
    return _Rehearsal(plan).estimate()


class _Rehearsal:
    """Goes through the pending stages with stand-ins for their models, which note each call."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._graph = plan, plan.graph
        self._experiment, self._run = plan.graph.experiment, plan.graph.experiment.run
        self._estimator = Estimator(self._run.call_settings)
        self._answers: dict[str, pa.Table] = {}
        self._retrieved: dict[str, pa.Table] = {}
        self._verdicts: dict[str, Memory] = {}
        self._pending = {step.node for step in plan.pending}

    def estimate(self) -> Estimate:
        blocked = set(self._plan.outside)
        for step in self._plan.pending:
            if any(parent in blocked for parents in self._graph.parents(step.node).values() for parent in parents):
                blocked.add(step.node)
            elif step.node.asset in CALL_MODELS and self._graph.calls_model(step.node):
                cell = str(step.node.partition)
                if step.node.asset == "answers":
                    self._answers[cell] = self._answer(cell)
                else:
                    self._judge(cell)
        return self._estimator.estimate()

    def _answer(self, cell: str) -> pa.Table:
        column, row = cell.split("|")
        model = self._experiment.matrix.column(column).model
        llm = None if model is None else stand_in(model, "answers", self._estimator, made_up_answer)
        return stages.answer(self._passages(row), generation_spec_table(self._experiment, column), self._run, llm)

    def _judge(self, cell: str) -> None:
        judge = self._graph.declaration.judges[cell.partition("|")[0]]
        llm = stand_in(judge, "judge_scores", self._estimator, made_up_verdict)
        if llm is None:
            return
        if cell not in self._answers:
            pending = Node("answers", cell) in self._pending
            self._answers[cell] = self._answer(cell) if pending else self._graph.load("answers", cell)
        memory = self._verdicts.setdefault(judge, {})
        stages.judge(self._answers[cell], self._questions, self._run, llm, memory=memory)

    def _passages(self, row: str) -> pa.Table:
        if row not in self._retrieved:
            if Node("retrieved_ids", row) in self._pending:
                wanted = self._experiment.matrix.row(row)
                found = self._runner.retrieved(wanted, self._experiment.load_evalset(), self._run)
            else:
                found = self._graph.load("retrieved_ids", row)
            self._retrieved[row] = found
        return self._retrieved[row]

    @cached_property
    def _questions(self) -> pa.Table:
        return evalset_table(self._experiment)

    @cached_property
    def _runner(self) -> Runner:
        return Runner(self._experiment.load_corpus(), self._run.headline, run=self._run)
