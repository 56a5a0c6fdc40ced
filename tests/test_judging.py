"""Judges over whole cells: batches, coverage, the ledger, settings, and where the scores go."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import contextgrid as cg
from contextgrid import stages
from contextgrid.core.axes import Generation
from contextgrid.core.documents import MediaType
from contextgrid.core.errors import ConfigError, StageError
from contextgrid.core.fingerprint import fingerprint
from contextgrid.core.tables import ANSWERS, EVALSET, JUDGE_SCORES, VOLATILE
from contextgrid.evalset.llm import RecordingLLM
from contextgrid.generate.judge import IncompleteScoresWarning, JudgeError
from contextgrid.generate.judging import coverage_warnings, judge_answers, with_judge_scores
from contextgrid.grid.runner import Runner
from contextgrid.report.judges import judge_notes
from contextgrid.report.markdown import write_report
from contextgrid.report.means import judge_cost
from contextgrid.settings import JudgeSettings, RunSettings
from tests.loopback import KEY, Fault, Loopback

VERDICT = {
    "truths": ["T."],
    "claims": ["C."],
    "statements": ["S."],
    "verdicts": [{"verdict": "yes", "statement": "S.", "reason": "so"}],
    "reason": "ok",
}


def answers(*texts: str | None, contexts: tuple[str, ...] = ("Refunds take thirty days.",), **changes: Any) -> pa.Table:
    rows = [
        {
            "question_id": f"q{number}",
            "question": f"Question {number}?",
            "answer": text,
            "passages": [
                {"chunk_id": "c", "source_id": "d", "start": 0, "end": len(passage), "text": passage}
                for passage in contexts
            ],
            "context": "\n".join(contexts),
            "status": "failed" if text is None else "answered",
            "error": "it broke" if text is None else None,
            **changes,
        }
        for number, text in enumerate(texts, start=1)
    ]
    return pa.Table.from_pylist(rows, schema=ANSWERS)


def evalset(count: int = 9) -> pa.Table:
    rows = [{"question_id": f"q{n}", "question": f"Question {n}?", "answer": "A reference."} for n in range(1, count)]
    return pa.Table.from_pylist(rows, schema=EVALSET)


class Judge:
    """A judge whose verdicts depend on the prompt alone; may be called side by side."""

    name = "judge"
    in_order = False
    concurrency = 8

    def __init__(self, delay: float = 0.0, failing: str = "no such text") -> None:
        self.calls = self.peak = self._now = 0
        self.delay, self.failing = delay, failing
        self._lock = threading.Lock()

    def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
        with self._lock:
            self.calls += 1
            self._now += 1
            self.peak = max(self.peak, self._now)
        time.sleep(self.delay)
        with self._lock:
            self._now -= 1
        if self.failing in prompt:
            return "I would rather not."
        if "###Question" in prompt:
            return f"Score: {len(prompt) % 5 + 1}\nJustification: Rated."
        verdicts = [{"verdict": "yes" if len(prompt) % 3 else "no", "statement": "S.", "reason": "so"}]
        return json.dumps({**VERDICT, "verdicts": verdicts})


def column(table: pa.Table, metric: str, name: str = "score") -> list[Any]:
    return [row[name] for row in table.to_pylist() if row["metric"] == metric]


def test_every_answer_has_a_row_for_every_metric_in_order() -> None:
    table = judge_answers(
        answers("One.", "I don't know.", None, "[1]"),
        evalset(),
        Judge(),
        metrics=("faithfulness", "contextual_recall"),
        rubric=("groundedness", "relevance"),
    )
    assert table.schema == JUDGE_SCORES
    metrics = ["faithfulness", "contextual_recall", "rubric_groundedness", "rubric_relevance"]
    assert table["metric"].to_pylist() == metrics * 4
    assert table["question_id"].to_pylist() == [f"q{n}" for n in (1, 2, 3, 4) for _ in metrics]
    assert column(table, "faithfulness", "status") == ["scored", "abstained", "failed", "vacuous"]
    assert column(table, "contextual_recall", "status") == ["scored", "scored", "failed", "scored"]
    assert column(table, "rubric_relevance", "status") == ["scored", "abstained", "failed", "vacuous"]
    assert column(table, "rubric_groundedness")[0] in (1.0, 2.0, 3.0, 4.0, 5.0)
    assert column(table, "faithfulness", "reason")[2] == "there is no answer: it broke"
    assert all(row["score"] is None for row in table.to_pylist() if row["status"] != "scored")


def test_answers_judged_side_by_side_have_the_scores_of_the_serial_run() -> None:
    cell = answers(*(f"Answer number {number} {'x' * number}." for number in range(1, 9)))
    serial, parallel = Judge(), Judge(delay=0.005)
    serial.concurrency = 1
    first = judge_answers(cell, evalset(), serial, rubric=("relevance",))
    second = judge_answers(cell, evalset(), parallel, rubric=("relevance",))
    assert fingerprint(first) == fingerprint(second)
    assert first.drop_columns(list(VOLATILE & set(first.column_names))).equals(
        second.drop_columns(list(VOLATILE & set(second.column_names)))
    )
    assert serial.peak == 1
    assert 1 < parallel.peak <= 8


def test_a_model_that_says_nothing_about_order_is_called_one_after_another() -> None:
    llm = RecordingLLM(default=json.dumps(VERDICT))
    table = judge_answers(answers("One.", "Two."), evalset(), llm)
    assert table["score"].to_pylist() == [1.0] * 4
    assert len(llm.prompts) == 14
    assert sum(table["calls"].to_pylist()) == sum(table["model_calls"].to_pylist()) == 14


def test_identical_items_are_judged_once_and_paid_in_their_first_row() -> None:
    cell = answers("The same.", "The same.", "Another.", question="One question?")
    llm = Judge()
    table = judge_answers(cell, evalset(), llm, metrics=("faithfulness",))
    assert llm.calls == 8
    assert table["calls"].to_pylist() == [4, 4, 4]
    assert table["model_calls"].to_pylist() == [4, 0, 4]
    assert table["score"][0] == table["score"][1]


def test_verdicts_are_shared_between_cells_but_failures_are_not() -> None:
    memory: dict[Any, Any] = {}
    llm = Judge(failing="Two.")
    first = judge_answers(answers("One.", "Two."), evalset(), llm, metrics=("faithfulness",), memory=memory)
    assert column(first, "faithfulness", "status") == ["scored", "failed"]
    calls, llm.failing = llm.calls, "no such text"
    second = judge_answers(answers("One.", "Two."), evalset(), llm, metrics=("faithfulness",), memory=memory)
    assert column(second, "faithfulness", "status") == ["scored", "scored"]
    assert llm.calls == calls + 4


def test_the_judge_sees_the_passages_that_the_generator_saw_and_nothing_else() -> None:
    llm = RecordingLLM(default=json.dumps(VERDICT))
    cell = answers("One.", contexts=("First passage.", "  ", "Second passage."))
    judge_answers(cell, evalset(), llm, metrics=("faithfulness",), rubric=("groundedness",))
    assert "First passage.\n\nSecond passage." in llm.prompts[0]
    assert "###Context\nFirst passage.\n\nSecond passage.\n" in llm.prompts[-1]


def test_an_answer_without_passages_costs_nothing() -> None:
    llm = Judge()
    table = judge_answers(answers("One.", contexts=()), evalset(), llm, rubric=("relevance",))
    assert set(table["status"].to_pylist()) == {"empty_context"}
    assert llm.calls == 0


def test_three_failures_of_four_leave_a_mean_over_one_and_a_warning() -> None:
    corpus = cg.Corpus.from_texts({"a.md": "Refunds take thirty days. Parcels take two days."})
    items = tuple(
        cg.EvalItem(f"q{n}", f"How long do {thing} take?", (cg.GoldAnchor("a.md", "days"),))
        for n, thing in enumerate(["refunds", "parcels", "calls", "repairs"])
    )
    replies = [json.dumps(VERDICT)] * 4 + ["no JSON here"] * 3
    runner = Runner(
        corpus, judge_llm=RecordingLLM(replies), run=RunSettings(judge=JudgeSettings(metrics=("faithfulness",)))
    )
    with pytest.warns(IncompleteScoresWarning, match=r"n=1 of 4: 3 failed; the first, question 'q1'"):
        result = runner.run_one(cg.Config(generator="extractive", index="bm25"), cg.EvalSet("es", items))
    assert result.metrics["faithfulness"] == 1.0
    assert str(result.coverage["faithfulness"]) == "1.000 (1 of 4)"
    assert result.warnings == [
        "faithfulness: mean 1.000, n=1 of 4: 3 failed; the first, question 'q1': the reply holds no JSON"
    ]
    assert result.judge_scores is not None
    assert result.judge_scores["raw_reply"].to_pylist() == [None, "no JSON here", "no JSON here", "no JSON here"]


def test_the_printed_runner_example_folds_the_judge_into_the_metrics() -> None:
    doc = "Either party may terminate this agreement for convenience by giving thirty days written notice."
    corpus = cg.Corpus.from_texts({"contract.md": doc}, media_type=MediaType.MARKDOWN)
    item = cg.EvalItem(
        id="q1",
        question="How much notice is needed to terminate for convenience?",
        anchors=(cg.GoldAnchor(source_id="contract.md", quote="thirty days"),),
    )
    judge_json = (
        '{"truths": ["Thirty days notice is required."], '
        '"claims": ["Thirty days notice is required."], '
        '"statements": ["Thirty days notice is required."], '
        '"verdicts": [{"verdict": "yes", "reason": "supported"}], "reason": "ok"}'
    )
    llm = RecordingLLM(replies=["Thirty days written notice is required [1]."], default=judge_json)
    runner = Runner(corpus=corpus, headline="recall@5", llm=llm)
    result = runner.run_one(cg.Config(generator="llm"), cg.EvalSet(id="es", items=(item,)))
    assert (result.metrics["faithfulness"], result.metrics["answer_relevancy"]) == (1.0, 1.0)
    assert result.answers is not None
    assert result.judge_scores is not None
    assert sum(result.answers["model_calls"].to_pylist()) == 1
    assert sum(result.judge_scores["model_calls"].to_pylist()) == 7
    assert len(llm.prompts) == 8


def test_without_deepeval_only_its_metrics_are_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contextgrid.generate.judging.deepeval_problem", lambda: "not installed")
    table = judge_answers(answers("One."), evalset(), Judge(), rubric=("relevance",))
    assert table["metric"].to_pylist() == ["rubric_relevance"]
    assert judge_answers(answers("One."), evalset(), Judge()).num_rows == 0


def test_judge_columns_join_by_question_and_absent_ones_are_null() -> None:
    scores = pa.table({"question_id": ["q2", "q1", "q9"]})
    judged = judge_answers(answers("One.", "I don't know."), evalset(), RecordingLLM(default=json.dumps(VERDICT)))
    joined = with_judge_scores(scores, judged)
    assert joined.column_names == ["question_id", "faithfulness", "answer_relevancy"]
    assert joined["faithfulness"].to_pylist() == [None, 1.0, None]
    assert with_judge_scores(scores, None, needs="faithfulness")["faithfulness"].null_count == 3


# Settings


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        ({"metrics": ["faithfulnes"]}, "did you mean 'faithfulness'"),
        ({"metrics": ["faithfulness", "faithfulness"]}, "listed twice"),
        ({"rubric": ["relevanc"]}, "did you mean 'relevance'"),
        ({"metrics": []}, "judge: null"),
        ({"threshold": float("nan")}, "finite"),
        ({"threshold": 2}, "less than or equal to 1"),
        ({"model": "offline:reader"}, "cannot judge"),
        ({"model": "opnai:x"}, "did you mean 'openai'"),
    ],
)
def test_judge_settings_that_cannot_work_are_refused(judge: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RunSettings(judge=judge)  # type: ignore[arg-type]


def test_unknown_metrics_are_refused_before_anything_is_called() -> None:
    with pytest.raises(JudgeError, match="unknown generation metric"):
        judge_answers(answers("One."), evalset(), Judge(), metrics=("nonsense",))
    with pytest.raises(JudgeError, match="did you mean 'relevance'"):
        judge_answers(answers("One."), evalset(), Judge(), rubric=("relevant",))


def test_the_judge_is_the_one_named_else_the_runs_model_else_the_generator_and_never_the_offline_reader() -> None:
    assert RunSettings().judge_model(None) is None
    assert RunSettings(model="offline:reader").judge_model("offline:reader") is None
    assert RunSettings(model="openai:a").judge_model("openai:b") == "openai:a"
    assert RunSettings().judge_model("openai:b") == "openai:b"
    assert RunSettings(model="openai:a", judge=JudgeSettings(model="openai:c")).judge_model(None) == "openai:c"
    assert RunSettings(model="openai:a", judge=None).judge_model(None) is None
    with pytest.raises(StageError, match=r"run\.judge\.model"):
        stages.judge(answers("One."), evalset(), RunSettings())


def write_experiment(folder: Path, run: str, model: str = "offline:reader") -> Path:
    (folder / "docs").mkdir(exist_ok=True)
    (folder / "docs" / "refunds.md").write_text("Refunds take thirty days of purchase.", encoding="utf-8")
    (folder / "docs" / "parcels.md").write_text("Parcels take two days to arrive.", encoding="utf-8")
    lines = [
        {
            "id": "q1",
            "question": "How long do refunds take?",
            "anchors": [{"source_id": "refunds.md", "quote": "thirty"}],
        },
        {
            "id": "q2",
            "question": "How long do parcels take?",
            "anchors": [{"source_id": "parcels.md", "quote": "two days"}],
        },
    ]
    (folder / "q.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    file = folder / "experiment.yaml"
    grid = f"grid:\n  index: [bm25, dense]\n  generator: llm\n  model: '{model}'\n"
    file.write_text(f"name: demo\ncorpus: docs\nevalset: q.jsonl\n{grid}run:\n{run}", encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("  judge:\n    metrcs: [faithfulness]\n", "unknown key 'run.judge.metrcs'; did you mean 'metrics'"),
        ("  judge:\n    metrics: [faithful]\n", "run.judge.metrics: unknown judge metric 'faithful'"),
        ("  answer_metric: faithfulness\n", "needs a model that judges, and there is none"),
        ("  answer_metric: contextual_recall\n", "is not judged; name it under run.judge"),
    ],
)
def test_an_experiment_that_cannot_be_judged_is_refused_when_it_is_loaded(
    tmp_path: Path, run: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        cg.Experiment.load(write_experiment(tmp_path, run))
    assert message in str(caught.value)
    assert "experiment.yaml" in str(caught.value)


def test_the_offline_reader_answers_and_nothing_is_judged(tmp_path: Path) -> None:
    experiment = cg.Experiment.load(write_experiment(tmp_path, "  judge:\n    rubric: [relevance]\n"))
    results = cg.Lab.from_experiment(experiment).run(experiment.load_evalset())
    assert all(run.judge_scores is None for run in results)
    assert results.notes == ("Answers were not judged: no model can judge. Set run.judge.model.",)


def test_the_version_of_the_scores_names_the_judge_its_metrics_and_deepeval(tmp_path: Path) -> None:
    matrix = cg.Experiment.load(write_experiment(tmp_path, "  k: 2\n")).matrix
    run = RunSettings(judge={"model": "openai:c", "rubric": ["relevance"]})  # type: ignore[arg-type]
    version = stages.code_version("judge_scores", run, matrix)
    for part in ("openai:c", "metrics=faithfulness,answer_relevancy", "rubric=relevance", "deepeval=4"):
        assert part in version
    assert stages.code_version("judge_scores", RunSettings(concurrency=3), matrix) == stages.code_version(
        "judge_scores", RunSettings(), matrix
    )


def test_a_model_that_grades_itself_is_named_in_every_report(tmp_path: Path) -> None:
    lab = cg.Lab(
        cg.Corpus.from_texts({"a.md": "Refunds take thirty days."}), llm=RecordingLLM(default=json.dumps(VERDICT))
    )
    lab = lab.grid(index="bm25", generator=["extractive", "llm"])
    items = cg.EvalSet("es", (cg.EvalItem("q1", "How long?", (cg.GoldAnchor("a.md", "thirty"),)),))
    results = lab.run(items)
    (note,) = results.notes
    assert note.startswith("recording graded answers that the same model wrote, in 1 of 2 columns.")
    assert "graded answers that the same model wrote" in write_report(results, tmp_path, "T").read_text("utf-8")
    other = cg.Lab(
        lab.corpus, llm=lab.llm, judge_llm=RecordingLLM(default=json.dumps(VERDICT), name="x"), axes=lab.axes
    )
    assert other.run(items).notes == ()


def test_columns_with_different_judges_are_pointed_out() -> None:
    columns = [Generation("llm", None, "openai:a"), Generation("llm", None, "openai:b,temperature=1")]
    own, different = judge_notes(RunSettings(), columns)
    assert "openai:a and openai:b graded answers that the same model wrote, in every column" in own
    assert "do not compare" in different
    (only,) = judge_notes(RunSettings(model="openai:a"), columns)
    assert "in 1 of 2 columns" in only
    assert judge_notes(RunSettings(judge=JudgeSettings(model="openai:c")), columns) == []


def test_a_judge_metric_can_be_what_the_lift_is_about() -> None:
    documents = {"a.md": "Refunds take thirty days.", "b.md": "Parcels take two days."}
    items = (
        cg.EvalItem("q1", "How long do refunds take?", (cg.GoldAnchor("a.md", "thirty"),)),
        cg.EvalItem("q2", "How long do parcels take?", (cg.GoldAnchor("b.md", "two"),)),
    )
    run = RunSettings(answer_metric="faithfulness", judge={"rubric": ["relevance"]})  # type: ignore[arg-type]
    lab = cg.Lab(cg.Corpus.from_texts(documents), settings=run, judge_llm=Judge(failing="Parcels take two days."))
    with pytest.warns(IncompleteScoresWarning):
        results = lab.grid(index=["bm25", "dense"], generator="extractive").run(cg.EvalSet("es", items))
    best = results.leaderboard.to_pylist()[0]
    assert best["answer_metric"] == "faithfulness"
    assert best["answer_n"] < best["questions"] == 2
    metrics = {metric["name"]: metric for metric in best["metrics"]}
    assert (metrics["faithfulness"]["n"], metrics["faithfulness"]["total"]) == (best["answer_n"], 2)
    assert "rubric_relevance" in metrics
    report = next(iter(results.lifts.values()))
    assert report.answer_metric == "faithfulness"
    assert report.not_compared


# Through LiteLLM and the ledger, against a server on loopback


def settings(server: Loopback, tmp_path: Path, **changes: Any) -> RunSettings:
    judge = {"model": server.spec, "rubric": ["groundedness"], **changes.pop("judge", {})}
    return RunSettings(ledger=str(tmp_path / "ledger.sqlite"), judge=judge, retries=1, **changes)  # type: ignore[arg-type]


def test_a_second_judgement_makes_no_call_and_gives_the_same_scores(server: Loopback, tmp_path: Path) -> None:
    run, cell = settings(server, tmp_path), answers("One.", "Two.", "I don't know.")
    first = stages.judge(cell, evalset(), run, cell="llm|a")
    # The calls of both answers that read the same, as the one for the passages' truths, are made once.
    assert sum(first["calls"].to_pylist()) == 16
    assert sum(first["model_calls"].to_pylist()) == len(server.requests) < 16
    assert all(usd > 0 for usd in first["usd"].to_pylist() if usd is not None)
    ratings = [request for request in server.requests if request["messages"][-1]["content"].startswith("###Question")]
    assert [message["role"] for message in ratings[0]["messages"]] == ["system", "user"]
    server.clear()
    second = stages.judge(cell, evalset(), run)
    assert len(server.requests) == 0
    assert fingerprint(first) == fingerprint(second)
    assert sum(second["model_calls"].to_pylist()) == 0
    assert second["usd"].to_pylist() == first["usd"].to_pylist()


def test_what_judging_a_cell_costs_does_not_depend_on_the_order_of_cells(server: Loopback, tmp_path: Path) -> None:
    cells = {
        "a": answers("One.", "Two.", "Two.", question="One question?"),
        "b": answers("Two.", "Three.", question="One question?"),
    }

    def judged(order: str) -> dict[str, pa.Table]:
        (tmp_path / order).mkdir()
        run, memory = settings(server, tmp_path / order), {}  # type: ignore[var-annotated]
        return {name: stages.judge(cells[name], evalset(), run, memory=memory) for name in order}

    first, second = judged("ab"), judged("ba")
    for name in cells:
        price, in_other_order = (judge_cost(tables[name]).mean for tables in (first, second))
        assert price is not None
        assert price == pytest.approx(in_other_order)
    shared = first["b"].filter(pc.equal(first["b"]["question_id"], "q1"))
    assert all(usd > 0 for usd in shared["usd"].to_pylist())
    for name in ("usd_spent", "model_calls"):
        assert set(shared[name].to_pylist()) == {0}
    again = [first["a"].filter(pc.equal(first["a"]["question_id"], question)) for question in ("q2", "q3")]
    assert again[0]["usd"].to_pylist() == again[1]["usd"].to_pylist()


def test_another_judge_model_calls_again_and_a_changed_answer_is_judged_alone(server: Loopback, tmp_path: Path) -> None:
    cell = answers("One.", "Two.")
    stages.judge(cell, evalset(), settings(server, tmp_path))
    server.clear()
    stages.judge(answers("One.", "Three."), evalset(), settings(server, tmp_path))
    # DeepEval takes truths from the passages alone, so that call is shared.
    assert len(server.requests) < 8
    server.clear()
    stages.judge(cell, evalset(), settings(server, tmp_path), f"openai:gpt-4o,api_base={server.url}")
    assert len(server.requests) > 8


def test_replies_that_break_off_fail_alone_and_the_raw_reply_is_kept(server: Loopback, tmp_path: Path) -> None:
    server.fault_for = lambda prompt: Fault("truncated") if "Two." in prompt else None
    table = stages.judge(answers("One.", "Two."), evalset(), settings(server, tmp_path))
    by_question = {(row["question_id"], row["metric"]): row for row in table.to_pylist()}
    assert by_question["q1", "faithfulness"]["status"] == "scored"
    failed = by_question["q2", "faithfulness"]
    assert (failed["status"], failed["score"]) == ("failed", None)
    assert failed["raw_reply"].startswith("{")
    assert KEY not in str(table.to_pylist())


def test_an_outage_fails_every_verdict_and_says_why(server: Loopback, tmp_path: Path) -> None:
    server.fault_for = lambda prompt: Fault("status", 400)
    table = stages.judge(answers("A canary answer that nobody repeats."), evalset(), settings(server, tmp_path))
    assert set(table["status"].to_pylist()) == {"failed"}
    assert all("400" in reason or "BadRequest" in reason for reason in table["reason"].to_pylist())
    assert "canary" not in str(table.to_pylist())
    assert "n=0 of 1" in coverage_warnings(table)[0]


def test_a_budget_ends_in_skipped_verdicts_and_the_next_run_completes_them(server: Loopback, tmp_path: Path) -> None:
    from contextgrid.models.calls import begin_run, spent

    cell = answers(*(f"Answer {number}." for number in range(1, 9)))
    run = settings(server, tmp_path, budget_usd=0.0025, concurrency=4)
    begin_run(run.call_settings)
    table = stages.judge(cell, evalset(), run)
    assert spent(run.call_settings) <= 0.0025
    whole = settings(server, tmp_path, concurrency=4)
    complete = stages.judge(cell, evalset(), whole)
    assert set(complete["status"].to_pylist()) == {"scored"}
    assert "skipped_budget" in table["status"].to_pylist()
    assert "skipped for the budget" in " ".join(coverage_warnings(table))
    assert server.served == len(server.requests)


def test_a_replay_serves_all_verdicts_and_fails_on_one_it_does_not_hold(server: Loopback, tmp_path: Path) -> None:
    first = stages.judge(answers("One."), evalset(), settings(server, tmp_path))
    server.clear()
    replay = settings(server, tmp_path, calls="replay")
    assert fingerprint(stages.judge(answers("One."), evalset(), replay)) == fingerprint(first)
    with pytest.raises(StageError, match="holds no reply"):
        stages.judge(answers("Other."), evalset(), replay)
    assert len(server.requests) == 0


def test_an_experiment_with_one_model_answers_and_judges_with_it(server: Loopback, tmp_path: Path) -> None:
    file = write_experiment(tmp_path, "  answer_metric: faithfulness\n", server.spec)
    experiment = cg.Experiment.load(file)
    results = cg.Lab.from_experiment(experiment).run(experiment.load_evalset())
    assert server.kinds()["judgement"] > 0
    assert "in every column" in results.notes[0]
    assert results.best.coverage["judge_usd_per_1k"].mean is not None
    assert any(line.startswith("Verdicts: ") for line in results.spending())
    assert results.leaderboard["answer_metric"].to_pylist() == ["faithfulness"] * 2


def test_a_metric_whose_every_verdict_failed_is_named_and_a_mean_over_few_says_so() -> None:
    class Lost:
        name = "lost"
        in_order = True

        def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
            return "no JSON at all"

    corpus = cg.Corpus.from_texts({"a.md": "Refunds take thirty days of purchase."})
    item = cg.EvalItem("q1", "How long do refunds take?", (cg.GoldAnchor("a.md", "thirty days"),))
    lab = cg.Lab(corpus, judge_llm=Lost()).grid(index="bm25", embedder=None, generator="extractive")
    results = lab.run(cg.EvalSet("es", (item, cg.EvalItem("q2", "Who chairs?", answerable=False))))
    assert [line.partition(":")[0] for line in results.lost_metrics] == ["faithfulness", "answer_relevancy"]
    frame = results.to_pandas()
    assert frame["recall@5_n"].tolist() == [1]
    assert frame["faithfulness_n"].tolist() == [0]
    assert "answer_quality_n" not in frame
