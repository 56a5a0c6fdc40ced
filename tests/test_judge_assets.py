"""Judges as assets: what a change costs in calls, what failed or did not fit the budget, and what is kept private."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from dagster import AssetKey, DagsterInstance
from dagster._core.instance.config import PoolGranularity
from dagster_shared.serdes import serialize_value

from contextgrid.core.fingerprint import fingerprint
from contextgrid.core.tables import JUDGE_SCORES
from contextgrid.grid.matrix import partition_counts
from contextgrid.models import LLMError, register_provider
from contextgrid.models.reply import Reply
from contextgrid_dagster import build_definitions
from contextgrid_dagster.calls import begun
from contextgrid_dagster.cli import main
from contextgrid_dagster.costs import describe_costs, estimate_plan
from contextgrid_dagster.executor import ExecutionReport, Kind, execute
from contextgrid_dagster.graph import Node
from contextgrid_dagster.planner import plan
from contextgrid_dagster.records import read_records
from tests.dagster_fixtures import Bench, copied_bench, new_bench, write_experiment
from tests.loopback import KEY, Fault, Loopback, kind_of, reply_to, running

JUDGED = """\
name: judged
corpus: documents
evalset: questions.jsonl
prompts: {short: prompts/short.txt, long: prompts/long.txt}
grid:
  parser: markdown
  chunker: ["recursive:60", "recursive:200"]
  index: bm25
  embedder: null
  generator: [extractive, llm]
  prompt: [short, long]
  model: tallied:writer
run:
  {k: 2, cutoffs: [1, 3], headline: recall@3, resamples: 200, retries: 0, prices: {"tallied:writer": [1000, 0],
   "tallied:judge": [1000, 0]}, judge: {model: "tallied:judge", metrics: [], rubric: [groundedness]}}
"""
ROWS, COLUMNS, QUESTIONS = 2, 3, 3
CELLS = ROWS * COLUMNS
SHORT = "llm__short__tallied-writer"
ROW = "markdown__recursive-200__bm25"
CELL = f"{SHORT}|{ROW}"
METRIC = "rubric_groundedness"

ASKED: list[tuple[str, str]] = []
"""Model and prompt of every call that was made in this process."""
TROUBLE: list[str] = []
"""The judge fails on prompts that hold one of these."""
NONSENSE: list[str] = []
"""The judge gives no rating to prompts that hold one of these."""


@dataclass(frozen=True)
class Tallied:
    """A model whose calls count, cost and can be kept in the ledger: it answers and rates by the prompt alone."""

    model: str
    in_order: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return f"tallied:{self.model}"

    def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
        return self.reply(prompt, max_tokens=max_tokens).text

    def reply(
        self, prompt: str, *, max_tokens: int = 512, system: str | None = None, timeout: float | None = None
    ) -> Reply:
        ASKED.append((self.name, prompt))
        if kind_of(prompt) == "answer":
            text = self._answer(prompt)
        else:
            if any(words in prompt for words in TROUBLE):
                raise LLMError("the judge is out of order")
            text = reply_to(prompt, f"{self.model} {system}")
            if any(words in prompt for words in NONSENSE):
                text = "It depends."
        return Reply(text, len(prompt.encode()) // 2, len(text.split()))

    def _answer(self, prompt: str) -> str:
        body, question = prompt.split("from\n", 1)[1].rsplit("\nQuestion", 1)
        passages = [line for line in body.splitlines() if line.strip() and not line.startswith("[")]
        all_of_them = "Mind parcels" in prompt and "parcels" in question
        return f"{' '.join(passages if all_of_them else passages[:1])} [1]"


@register_provider("tallied")
def _tallied(model: str, options: Mapping[str, str]) -> Tallied:
    return Tallied(model)


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("DAGSTER_HOME", "CONTEXTGRID_STORAGE", "CONTEXTGRID_LEDGER", "CONTEXTGRID_CALLS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    yield
    TROUBLE.clear()
    NONSENSE.clear()


@pytest.fixture(scope="module")
def built_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judged")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DAGSTER_HOME", "CONTEXTGRID_STORAGE", "CONTEXTGRID_LEDGER", "CONTEXTGRID_CALLS"):
            patch.delenv(name, raising=False)
        with new_bench(folder, JUDGED) as fresh:
            report = fresh.materialise()
            assert report.success, report.of_kind(Kind.FAILED)
    return folder


@pytest.fixture
def bench(built_folder: Path, tmp_path: Path) -> Iterator[Bench]:
    """The judged experiment, built completely."""
    with copied_bench(built_folder, tmp_path / "bench") as copied:
        yield copied


def run(bench: Bench, *selections: str, fresh: bool = False, **options: Any) -> ExecutionReport:
    """What ``contextgrid-dagster materialize`` does."""
    graph = begun(bench.graph(), fresh=fresh, **options)
    return execute(plan(graph, bench.instance, selections, fresh=fresh), bench.instance)


def asked(work: Callable[[], object]) -> list[tuple[str, str]]:
    """The calls made meanwhile; none is made twice."""
    mark = len(ASKED)
    work()
    made = ASKED[mark:]
    assert max(Counter(made).values(), default=1) == 1
    return made


def answers_of(bench: Bench) -> dict[str, pa.Table]:
    graph = bench.graph()
    return {str(cell): graph.load("answers", cell) for cell in graph.partitions("answers")}


def judged_items(tables: Mapping[str, pa.Table]) -> set[tuple[str, str, tuple[str, ...]]]:
    return {
        (row["question"], row["answer"], tuple(passage["text"] for passage in row["passages"]))
        for table in tables.values()
        for row in table.to_pylist()
        if row["passages"]
    }


def metadata_of(bench: Bench, node: Node) -> dict[str, Any]:
    record = read_records(bench.graph(), bench.instance)[node]
    return {name: value.value for name, value in record.materialization.metadata.items()}


def logs_of(instance: DagsterInstance) -> list[str]:
    return [serialize_value(entry) for run in instance.get_runs() for entry in instance.all_logs(run.run_id)]


# What a change costs


def test_nothing_changed_costs_no_call(bench: Bench) -> None:
    assert not bench.plan().pending
    assert asked(lambda: run(bench)) == []


def test_the_first_build_judges_every_distinct_answer_once(tmp_path: Path) -> None:
    with new_bench(tmp_path, JUDGED) as fresh:
        made = asked(lambda: run(fresh))
        of_judge = [prompt for model, prompt in made if model == "tallied:judge"]
        assert len(of_judge) == len(judged_items(answers_of(fresh)))
        assert len(made) - len(of_judge) <= 2 * ROWS * QUESTIONS


def test_an_edited_prompt_costs_its_answers_and_the_judgements_of_those_that_changed(bench: Bench) -> None:
    before = judged_items(answers_of(bench))
    bench.edit("prompts/short.txt", "Sentinel short.", "Mind parcels.")
    made = asked(lambda: run(bench))
    new = judged_items(answers_of(bench)) - before
    assert new
    assert all("parcels" in question for question, _, _ in new)
    of_writer = [prompt for model, prompt in made if model == "tallied:writer"]
    assert len(of_writer) == ROWS * QUESTIONS
    assert all("Mind parcels" in prompt for prompt in of_writer)
    assert len(made) - len(of_writer) == len(new)
    assert not bench.plan().pending


def test_another_judge_costs_judge_calls_only(bench: Bench) -> None:
    bench.edit("experiment.yaml", 'judge: {model: "tallied:judge"', 'judge: {model: "tallied:other"')
    assert "judge changed: tallied:judge -> tallied:other" in bench.reasons()[Node("judge_scores", CELL)]
    with bench.counted() as counted:
        made = asked(lambda: run(bench))
    assert {model for model, _ in made} == {"tallied:other"}
    assert len(made) == len(judged_items(answers_of(bench)))
    assert set(counted.counts()) == {"judge_scores", "lift_reports", "leaderboard"}
    assert counted.counts()["judge_scores"] == CELLS


def test_another_rubric_reaches_the_lift_and_the_leaderboard_and_nothing_above(bench: Bench) -> None:
    bench.edit("experiment.yaml", "rubric: [groundedness]", "rubric: [groundedness, relevance]")
    with bench.counted() as counted:
        made = asked(lambda: run(bench))
    assert {model for model, _ in made} == {"tallied:judge"}
    assert counted.counts() == {"judge_scores": CELLS, "lift_reports": CELLS, "leaderboard": 1}
    names = [metric["name"] for metric in bench.graph().load("leaderboard")["metrics"].to_pylist()[0]]
    assert {METRIC, "rubric_relevance"} <= set(names)


def test_without_judges_the_lift_forgets_them(bench: Bench) -> None:
    text = bench.file.read_text()
    bench.file.write_text(text[: text.index("judge: {")] + "judge: null}\n")
    assert "judge_scores" not in bench.graph().names
    assert bench.reasons()[Node("lift_reports", CELL)] == ("judge_scores is no longer part of it",)
    assert asked(lambda: run(bench)) == []
    assert not bench.plan().pending


def test_fresh_calls_everything_once_more_and_replay_nothing(bench: Bench) -> None:
    distinct = len(judged_items(answers_of(bench)))
    made = asked(lambda: run(bench, fresh=True))
    assert Counter(model for model, _ in made) == {"tallied:writer": 2 * ROWS * QUESTIONS, "tallied:judge": distinct}

    shutil.rmtree(bench.folder / ".contextgrid" / "storage")
    assert asked(lambda: run(bench, replay=True)) == []
    assert not bench.plan().pending

    bench.edit("prompts/short.txt", "Sentinel short.", "Mind parcels.")
    report = run(bench, replay=True)
    assert {outcome.node.asset for outcome in report.of_kind(Kind.FAILED)} == {"answers"}
    assert "not recorded" in report.of_kind(Kind.FAILED)[0].reason


# Which columns are judged


def test_judges_are_left_out_where_nothing_can_judge(tmp_path: Path) -> None:
    text = JUDGED.replace('judge: {model: "tallied:judge", metrics: [], rubric: [groundedness]}', "judge: {}")
    for number, model in enumerate(["offline:reader", "tallied:writer"]):
        with new_bench(tmp_path / str(number), text.replace("model: tallied:writer", f"model: {model}")) as fresh:
            graph = fresh.graph()
            assert ("judge_scores" in graph.names) == (model != "offline:reader")
            counts = {name: len(graph.partitions(name)) for name in graph.names}
            assert counts == partition_counts(graph.experiment.matrix, graph.experiment.run)


def test_a_column_that_cannot_be_judged_has_an_empty_table_and_says_why(tmp_path: Path) -> None:
    text = JUDGED.replace('{model: "tallied:judge", metrics', "{metrics")
    with new_bench(tmp_path, text) as fresh:
        assert run(fresh).success
        graph = fresh.graph()
        unjudged = Node("judge_scores", f"extractive|{ROW}")
        assert graph.load("judge_scores", unjudged.partition).equals(JUDGE_SCORES.empty_table())
        assert metadata_of(fresh, unjudged)["note"] == "no model can judge this column; name one as run.judge.model"
        assert graph.load("judge_scores", CELL).num_rows == QUESTIONS
        assert metadata_of(fresh, Node("judge_scores", CELL))["note"] == "the model judges its own answers"
        assert not fresh.plan().pending


# What is shown


def test_materialisations_show_scores_coverage_calls_dollars_and_latency(tmp_path: Path) -> None:
    with new_bench(tmp_path, JUDGED) as fresh:
        report = run(fresh)
        spent = 0.0
        for asset in ("answers", "judge_scores"):
            for cell in fresh.graph().partitions(asset):
                spent += metadata_of(fresh, Node(asset, cell)).get("usd_spent", 0.0)
        assert spent == pytest.approx(report.calls.spent)
        assert report.calls.spent > 0
        first = metadata_of(fresh, Node("judge_scores", "extractive|markdown__recursive-60__bm25"))
        assert 1 <= first[METRIC] <= 5
        assert first["coverage"] == f"{METRIC}: {first[f'{METRIC}_scored']} of 3"
        assert first["model_calls"] + first["calls_served_by_ledger"] == first["verdicts_scored"]
        assert first["usd_original"] >= first["usd_spent"] > 0
        assert first["model_prompt_tokens"] > 0
        assert 0 <= first["latency_p50_seconds"] <= first["latency_p95_seconds"]
        answers = metadata_of(fresh, Node("answers", CELL))
        assert (answers["model_calls"], answers["calls_served_by_ledger"]) == (QUESTIONS, 0)
        assert "model_calls" not in metadata_of(fresh, Node("answers", f"extractive|{ROW}"))
        shown = read_records(fresh.graph(), fresh.instance)[Node("leaderboard")].materialization.metadata["leaderboard"]
        assert all(record.data[METRIC] is not None for record in shown.records)  # type: ignore[attr-defined]

        again = fresh.materialise("answers", "judge_scores", rebuild_all=True)
        assert len(again.of_kind(Kind.UNCHANGED)) == 2 * CELLS
        assert (again.calls.calls, again.calls.spent) == (0, 0.0)
        rebuilt = metadata_of(fresh, Node("answers", CELL))
        assert (rebuilt["model_calls"], rebuilt["calls_served_by_ledger"], rebuilt["usd_spent"]) == (0, QUESTIONS, 0)
        assert rebuilt["usd_original"] == answers["usd_original"]


def test_models_are_in_a_pool_that_the_instance_limits(bench: Bench) -> None:
    definitions = build_definitions(bench.file)
    graph = definitions.resolve_asset_graph()
    pooled = {key.path[-1] for key in graph.get_all_asset_keys() if graph.get(key).pools}
    assert pooled == {"answers", "judge_scores"}
    assert graph.get(AssetKey(["answers"])).pools == {"contextgrid_models"}
    assert definitions.resolve_job_def("bring_up_to_date").all_node_defs[0].pools == {"contextgrid_models"}
    config = bench.instance.get_concurrency_config().pool_config
    assert (config.pool_granularity, config.default_pool_limit) == (PoolGranularity.RUN, 1)


# What failed, and what the budget did not cover


def test_a_judge_that_fails_for_a_question_is_asked_again_about_that_one_only(tmp_path: Path) -> None:
    TROUBLE.append("chairs the board")
    with new_bench(tmp_path, JUDGED) as fresh:
        report = run(fresh)
        assert report.success
        (outcome,) = [outcome for outcome in report.outcomes if outcome.node == Node("judge_scores", CELL)]
        assert outcome.unfinished == "1 verdict failed"
        assert fresh.reasons()[Node("judge_scores", CELL)] == ("1 verdict failed last time",)
        noted = metadata_of(fresh, Node("judge_scores", CELL))
        assert noted["coverage"] == f"{METRIC}: 2 of 3"
        assert any(f"{METRIC}: mean" in line and "n=2 of 3: 1 failed" in line for line in logs_of(fresh.instance))

        TROUBLE.clear()
        made = asked(lambda: run(fresh))
        assert made
        assert all("chairs the board" in prompt for _, prompt in made)
        assert not fresh.plan().pending


def test_verdicts_that_would_fail_again_the_same_way_are_left_as_they_are(tmp_path: Path) -> None:
    NONSENSE.append("chairs the board")
    text = JUDGED.replace("metrics: []", "metrics: [contextual_recall]")  # no question has a reference answer
    with new_bench(tmp_path, text) as fresh:
        assert run(fresh).success
        assert not fresh.plan().pending
        noted = metadata_of(fresh, Node("judge_scores", CELL))
        assert noted["coverage"] == f"contextual_recall: 0 of 3, {METRIC}: 2 of 3"
        assert noted["verdicts_failed"] == 4
        failed = fresh.graph().load("judge_scores", CELL).to_pylist()
        assert [row["raw_reply"] for row in failed if row["raw_reply"]] == ["It depends."]


def test_a_judge_that_fails_throughout_is_no_success(tmp_path: Path) -> None:
    TROUBLE.append("")  # stands in every prompt
    with new_bench(tmp_path, JUDGED) as fresh:
        report = run(fresh)
        assert not report.success
        (outcome,) = [outcome for outcome in report.outcomes if outcome.node == Node("judge_scores", CELL)]
        assert (outcome.lost or "").startswith(f"every verdict failed: {METRIC} (")
        assert METRIC not in metadata_of(fresh, Node("judge_scores", CELL))
    TROUBLE.clear()


def test_a_killed_run_pays_at_most_the_calls_under_way_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    command = [sys.executable, "-c", "from contextgrid_dagster.cli import main; main()", "materialize"]
    with running() as server:
        text = JUDGED.replace("retries: 0", "concurrency: 2").replace("tallied:writer", server.spec)
        text = text.replace("tallied:judge", server.spec).replace(f"model: {server.spec}", f'model: "{server.spec}"')
        text = re.sub(r"prices: \{.*?\}, ", "", text, flags=re.DOTALL)
        server.delay = 0.05
        file = write_experiment(tmp_path, text)
        process = subprocess.Popen([*command, file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while server.served < 15 and time.monotonic() < end:
            time.sleep(0.01)
        process.kill()
        process.wait()
        assert 15 <= server.served < 24
        done = subprocess.run([*command, file], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        prompts = Counter((request["messages"][0]["content"], prompt) for request, prompt in requests_of(server))
        assert sum(prompts.values()) <= len(prompts) + 2


def requests_of(server: Loopback) -> list[tuple[dict[str, Any], str]]:
    return list(zip(server.requests, server.prompts, strict=True))


def test_a_budget_is_kept_and_later_runs_complete_what_it_left_out(bench: Bench, tmp_path: Path) -> None:
    with new_bench(tmp_path / "costly", JUDGED) as fresh:
        full = run(fresh).calls.spent
    with new_bench(tmp_path / "tight", JUDGED) as tight:
        budget = full / 2
        first = run(tight, budget=budget)
        assert not first.success
        assert 0 < first.calls.spent <= budget
        cell = next(outcome.node for outcome in first.outcomes if outcome.skipped)
        assert any("questions skipped for the budget" in line for line in logs_of(tight.instance))
        (reason, *_) = tight.reasons()[cell]
        assert reason.endswith("skipped for the budget")
        total, runs = first.calls.spent, 1
        while tight.plan().pending and runs < 9:
            more = run(tight, budget=budget)
            assert more.calls.spent <= budget
            total, runs = total + more.calls.spent, runs + 1
        assert runs < 9
        assert total == pytest.approx(full)
        for name in ("answers", "judge_scores"):
            for partition in tight.graph().partitions(name):
                expected = fingerprint(bench.graph().load(name, partition))
                assert fingerprint(tight.graph().load(name, partition)) == expected


def test_the_job_takes_a_budget_and_replays(tmp_path: Path) -> None:
    with new_bench(tmp_path, JUDGED) as fresh:
        job = build_definitions(fresh.file).resolve_job_def("bring_up_to_date")

        def launched(**options: object) -> list[str]:
            config = {"ops": {"bring_up_to_date_op": {"config": options}}}
            result = job.execute_in_process(instance=fresh.instance, run_config=config, raise_on_error=False)
            return [f"success {result.success}", *(line for line in logs_of(fresh.instance) if result.run_id in line)]

        lines = launched(budget=0.0)
        assert lines[0] == "success False"
        assert any("the budget did not cover all questions of" in line for line in lines)
        assert launched()[0] == "success True"
        assert asked(lambda: launched(replay=True, rebuild_all=True)) == []
        assert not fresh.plan().pending


# What it would cost


def test_the_plan_says_which_calls_are_needed_before_anything_is_built(tmp_path: Path) -> None:
    with new_bench(tmp_path, JUDGED) as fresh:
        mark = len(ASKED)
        estimate = estimate_plan(fresh.plan())
        assert len(ASKED) == mark
        needed = {item.stage: item for item in estimate.needed}
        made = Counter(model for model, _ in asked(lambda: run(fresh)))
        assert needed["answers"].to_make == made["tallied:writer"]
        # Answers that are not written yet may turn out alike.
        assert needed["judge_scores"].to_make >= made["tallied:judge"]
        assert estimate.usd is not None
        assert estimate_plan(fresh.plan()).needed == ()


def test_the_plan_counts_what_the_ledger_holds(bench: Bench) -> None:
    before = judged_items(answers_of(bench))
    bench.edit("experiment.yaml", 'judge: {model: "tallied:judge"', 'judge: {model: "tallied:other"')
    (needed,) = estimate_plan(bench.plan()).needed
    assert (needed.model, needed.to_make, needed.held) == ("tallied:other", len(before), 0)
    shutil.rmtree(bench.folder / ".contextgrid" / "storage")
    bench.edit("experiment.yaml", 'judge: {model: "tallied:other"', 'judge: {model: "tallied:judge"')
    needed_now = estimate_plan(bench.plan())
    assert (needed_now.calls, needed_now.held) == (0, len(before) + 2 * ROWS * QUESTIONS)


def test_offline_models_need_no_paid_calls(tmp_path: Path) -> None:
    text = JUDGED.replace("model: tallied:writer", "model: offline:reader").replace('{model: "tallied:judge", ', "{")
    with new_bench(tmp_path, text) as fresh:
        assert describe_costs(fresh.plan()) == ["no paid calls"]


def test_the_command_states_costs_keeps_a_budget_and_says_what_was_spent(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def terminal(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["contextgrid-dagster", *map(str, arguments)])
        try:
            main()
        except SystemExit as stopped:
            captured = capsys.readouterr()
            return int(stopped.code or 0), captured.out + captured.err
        raise AssertionError

    bench.edit("prompts/short.txt", "Sentinel short.", "Mind parcels.")
    code, out = terminal("plan", bench.file)
    assert code == 0
    assert f"answers: {ROWS * QUESTIONS} calls to tallied:writer, about $" in out
    assert "(estimates)" in out
    assert "Calls" not in terminal("plan", bench.file, "--no-costs")[1]

    code, out = terminal("materialize", bench.file, "--budget", "0")
    assert code == 1
    assert "3 questions skipped for the budget" in out
    assert "The budget is spent; run again for the rest." in out
    code, out = terminal("plan", bench.file)
    assert "3 questions skipped for the budget" in out

    code, out = terminal("materialize", bench.file)
    assert code == 0
    assert "Models: " in out
    assert " replies from the ledger; $" in out
    code, out = terminal("materialize", bench.file, "--fresh", "--replay")
    assert code == 2
    assert "choose one" in out


# What is kept private


def test_no_key_prompt_or_document_text_is_in_any_log_or_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with running() as server:
        text = JUDGED.replace("tallied:writer", server.spec)
        text = text.replace(f'prices: {{"{server.spec}": [1000, 0],\n   "tallied:judge": [1000, 0]}}, ', "")
        text = text.replace('{model: "tallied:judge", metrics: []', "{metrics: [answer_relevancy]")
        text = text.replace(f"model: {server.spec}", f'model: "{server.spec}"')
        server.fault_for = lambda prompt: Fault("status", 400) if "chairs the board" in prompt else None
        with new_bench(tmp_path, text) as fresh:
            documents = fresh.folder / "documents"
            for file in documents.iterdir():
                file.write_text(file.read_text().replace("\n\n", "\n\nZanzibarium canary text. ", 1))
            report = run(fresh)
            assert report.calls.calls > 0
            assert server.kinds()["judgement"] > 0
            assert server.kinds()["rating"] > 0
            assert any("Zanzibarium" in prompt for prompt in server.prompts)
            events = "".join(logs_of(fresh.instance))
            home = Path(fresh.instance.root_directory)
            recorded = b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file())
            assert b"judge_scores" in recorded
            for canary in (KEY, "Sentinel", "Zanzibarium", "thirty days of purchase"):
                assert canary not in events, canary
                assert canary.encode() not in recorded, canary
