"""A budget is never exceeded, says what it left out, and what it left out is done by the next run."""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import contextgrid as cg
from contextgrid import cli
from contextgrid.core.errors import ConfigError
from contextgrid.grid.costs import Estimate, Needed, describe, estimate
from contextgrid.models.budget import Budget, BudgetExceeded
from contextgrid.models.calls import CallSettings, begin_run, map_in_order, open_model, spent
from contextgrid.report.results import Results
from tests.loopback import Fault, Loopback, kind_of

QUESTIONS = 12


@pytest.fixture
def experiment_file(server: Loopback, tmp_path: Path) -> Path:
    """Twelve questions about twelve documents, two rows, one column on the loopback model."""
    (tmp_path / "documents").mkdir()
    lines = []
    for number in range(QUESTIONS):
        fact = f"Machine {number} weighs exactly {100 + number} kilograms."
        (tmp_path / "documents" / f"machine-{number}.md").write_text(f"# Machine {number}\n\n{fact}\n")
        anchor = {"source_id": f"machine-{number}.md", "quote": f"exactly {100 + number} kilograms"}
        lines.append(json.dumps({"id": f"q{number}", "question": f"What is machine {number}?", "anchors": [anchor]}))
    (tmp_path / "questions.jsonl").write_text("\n".join(lines))
    file = tmp_path / "experiment.yaml"
    file.write_text(
        f"""\
name: machines
corpus: documents
evalset: questions.jsonl
grid:
  index: [bm25, dense]
  generator: llm
  model: "{server.spec}"
run: {{k: 2, cutoffs: [2], headline: recall@2, resamples: 200, max_tokens: 100, concurrency: 4, judge: null}}
"""
    )
    return file


def set_run(file: Path, **settings: object) -> None:
    text = file.read_text()
    more = "".join(f", {name}: {json.dumps(value)}" for name, value in settings.items())
    file.write_text(text.rstrip().removesuffix("}") + more + "}\n")


def run(file: Path) -> Results:
    experiment = cg.Experiment.load(file)
    return cg.Lab.from_experiment(experiment).run(experiment.load_evalset())


@dataclass(frozen=True)
class Outcome:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def contextgrid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """The command, run in this process, where LiteLLM is imported already."""
    monkeypatch.setattr(cli, "console", Console(width=240))

    def command(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["contextgrid", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return Outcome(int(ended.value.code or 0), *capsys.readouterr())

    return command


# the budget itself


@given(
    limit=st.floats(0, 10),
    calls=st.lists(st.tuples(st.floats(0, 3), st.floats(0, 1)), max_size=30),
)
def test_no_order_of_calls_overspends(limit: float, calls: list[tuple[float, float]]) -> None:
    budget = Budget(limit)

    def call(worst: float, share: float) -> None:
        try:
            budget.reserve(worst)
        except BudgetExceeded:
            return
        assert budget.spent <= limit + 1e-9
        budget.settle(worst, worst * share)

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(call, *pair) for pair in calls]:
            future.result(timeout=20)
    assert budget.spent <= limit + 1e-9


def test_a_call_that_does_not_fit_waits_for_those_under_way() -> None:
    budget = Budget(1.0)
    budget.reserve(0.9)
    threading.Timer(0.1, budget.settle, (0.9, 0.1)).start()
    begin = time.monotonic()
    budget.reserve(0.9)
    assert time.monotonic() - begin > 0.08
    budget.settle(0.9, 0.85)
    with pytest.raises(BudgetExceeded, match="the budget of \\$1 does not cover this call"):
        budget.reserve(0.9)
    budget.reserve(0.05)  # a smaller one still fits


# the budget of calls


def test_concurrent_calls_end_within_the_budget_and_the_next_run_completes_them(
    server: Loopback, tmp_path: Path
) -> None:
    server.delay = 0.02
    prompts = [f"question {number}" for number in range(60)]
    runs = 0
    while runs < 20:
        runs += 1
        calls = CallSettings(ledger=str(tmp_path / "ledger.sqlite"), concurrency=16, budget_usd=0.0002)
        begin_run(calls)
        llm = open_model(server.spec, calls=calls, stage="answers")
        replies = map_in_order(llm, lambda prompt: llm.complete(prompt, max_tokens=100), prompts)  # noqa: B023
        skipped = [reply for reply in replies if not isinstance(reply, str)]
        assert all(isinstance(reply, BudgetExceeded) for reply in skipped)
        assert llm.meter.spent == pytest.approx(spent(calls))
        assert spent(calls) <= 0.0002
        if not skipped:
            break
        # Not a cent of it lies idle that could have paid for another call.
        worst = llm.worst_case(prompts[-1], max_tokens=100)
        assert worst is not None
        assert spent(calls) > 0.0002 - worst
    assert runs > 1
    assert len(server.requests) == 60


def test_hits_failures_and_retries_spend_nothing(server: Loopback, tmp_path: Path) -> None:
    calls = CallSettings(ledger=str(tmp_path / "ledger.sqlite"), budget_usd=0.001)
    llm = open_model(server.spec, calls=calls, stage="answers")
    server.faults.append(Fault("status", 400))
    with pytest.raises(Exception, match="BadRequest"):
        llm.complete("Why?")
    assert spent(calls) == 0
    llm.complete("Why?")
    once = spent(calls)
    llm.complete("Why?")
    assert spent(calls) == once > 0
    assert llm.meter.usd == pytest.approx(2 * once)


def test_a_reply_without_counted_tokens_takes_the_worst_case(server: Loopback, tmp_path: Path) -> None:
    calls = CallSettings(ledger=str(tmp_path / "ledger.sqlite"), budget_usd=0.01)
    llm = open_model(server.spec, calls=calls, stage="answers")
    server.faults.append(Fault("no_usage"))
    reply = llm.reply("Why?", max_tokens=50)
    assert spent(calls) == llm.worst_case("Why?", max_tokens=50) or reply.usd is not None


def test_a_model_without_a_price_is_refused_up_front_under_a_budget(tmp_path: Path) -> None:
    spec = "openai:our-own,api_base=http://127.0.0.1:9/v1"
    with pytest.raises(ConfigError, match=r"no price for model 'openai:our-own'; write .* under run\.prices"):
        open_model(spec, calls=CallSettings(budget_usd=1), stage="answers")
    open_model(spec, calls=CallSettings(), stage="answers")
    free = CallSettings(budget_usd=1, prices=(("openai:our-own", 0.0, 0.0),))
    assert open_model(spec, calls=free, stage="answers").price == (0, 0)


# the budget of an experiment


def test_an_experiment_stops_at_its_budget_and_resumes_to_the_same_result(
    server: Loopback, experiment_file: Path, tmp_path: Path
) -> None:
    set_run(experiment_file, budget_usd=0.0002)
    statuses: list[list[str]] = []
    runs = []
    for _ in range(8):
        results = run(experiment_file)
        runs.append(results)
        answers = [cell.answers for cell in results if cell.answers is not None]
        statuses.append([status for table in answers for status in table["status"].to_pylist()])
        assert sum(value or 0 for table in answers for value in table["usd_spent"].to_pylist()) <= 0.0002
        if results.skipped_questions == 0:
            break
    assert runs[0].skipped_questions > 0
    assert set(statuses[0]) == {"answered", "skipped_budget"}
    for cell in runs[0]:
        assert cell.answers is not None
        assert cell.lexical_scores is not None
        scores = dict(zip(cell.answers["status"].to_pylist(), cell.lexical_scores.to_pylist(), strict=True))
        if "skipped_budget" in scores:
            missing = scores["skipped_budget"]
            assert missing["status"] == "skipped_budget"
            assert "the budget of $0.0002 does not cover this call" in missing["reason"]
            assert missing["answer_quality"] is None
            assert missing["groundedness"] is None
    assert runs[-1].skipped_questions == 0
    undisturbed = server.served
    set_run(experiment_file, ledger="other.sqlite")
    text = experiment_file.read_text().replace(", budget_usd: 0.0002", "")
    experiment_file.write_text(text)
    server.clear()
    whole = run(experiment_file)
    assert server.served == undisturbed
    for resumed, direct in zip(runs[-1], whole, strict=True):
        assert resumed.answers is not None
        assert direct.answers is not None
        assert resumed.answers["answer"].to_pylist() == direct.answers["answer"].to_pylist()
        assert resumed.metrics == pytest.approx(direct.metrics)


def test_a_budget_of_nothing_leaves_every_question_for_later(server: Loopback, experiment_file: Path) -> None:
    set_run(experiment_file, budget_usd=0)
    results = run(experiment_file)
    assert results.skipped_questions == 2 * QUESTIONS
    assert server.requests == []
    assert all("answer_quality" not in cell.metrics for cell in results)


def test_an_experiment_with_an_unpriced_model_and_a_budget_is_refused_with_the_mend(experiment_file: Path) -> None:
    experiment_file.write_text(experiment_file.read_text().replace("gpt-4o-mini", "our-own"))
    cg.Experiment.load(experiment_file)
    set_run(experiment_file, budget_usd=1)
    with pytest.raises(ConfigError, match=r"experiment\.yaml: run\.budget_usd is set, but there is no price"):
        cg.Experiment.load(experiment_file)
    set_run(experiment_file, prices={"openai:our-own": [0.1, 0.2]})
    cg.Experiment.load(experiment_file)


def test_the_cost_of_a_cell_is_in_its_metrics_and_hits_count_at_their_price(
    server: Loopback, experiment_file: Path
) -> None:
    first, again = run(experiment_file), run(experiment_file)
    for paid, stored in zip(first, again, strict=True):
        assert paid.answers is not None
        assert stored.answers is not None
        usd = [value for value in paid.answers["usd"].to_pylist() if value is not None]
        assert paid.metrics["generation_usd_per_1k"] == pytest.approx(1000 * sum(usd) / QUESTIONS)
        assert stored.metrics["generation_usd_per_1k"] == paid.metrics["generation_usd_per_1k"]
        assert sum(stored.answers["usd_spent"].to_pylist()) == 0
        assert sum(stored.answers["model_calls"].to_pylist()) == 0
    assert "0 calls, $0.0000 spent now; at their original price the answers cost $" in again.spending()[0]


def test_an_experiment_without_paid_calls_makes_no_ledger(
    server: Loopback, experiment_file: Path, contextgrid: Callable[..., Outcome]
) -> None:
    experiment_file.write_text(experiment_file.read_text().replace(server.spec, "offline:reader"))
    run(experiment_file)
    assert "no calls that cost anything" in contextgrid("check", experiment_file).stdout
    assert not (experiment_file.parent / ".contextgrid").exists()


def test_free_and_unpriced_models_are_told_apart(experiment_file: Path, server: Loopback) -> None:
    text = experiment_file.read_text()
    experiment_file.write_text(text.replace(server.spec, "offline:reader"))
    assert {cell.metrics["generation_usd_per_1k"] for cell in run(experiment_file)} == {0.0}
    experiment_file.write_text(text.replace("gpt-4o-mini", "our-own"))
    assert all("generation_usd_per_1k" not in cell.metrics for cell in run(experiment_file))


# before anything runs


def test_the_calls_needed_are_known_before_they_are_made(server: Loopback, experiment_file: Path) -> None:
    experiment = cg.Experiment.load(experiment_file)
    before = estimate(experiment)
    assert server.requests == []
    assert before.held == 0
    assert before.usd is not None
    assert before.usd_at_most is not None
    assert 0 < before.usd < before.usd_at_most
    run(experiment_file)
    assert len(server.requests) == before.calls
    after = estimate(experiment)
    assert (after.calls, after.held, after.usd) == (0, before.calls, 0)


def test_check_states_calls_and_dollars_net_of_the_ledger(
    server: Loopback, experiment_file: Path, contextgrid: Callable[..., Outcome]
) -> None:
    stated = contextgrid("check", experiment_file)
    assert stated.returncode == 0, stated.stderr
    assert "calls to openai:gpt-4o-mini, about $0.00" in stated.stdout
    assert "(estimates)" in stated.stdout
    run(experiment_file)
    assert "Calls  answers: 0 calls to openai:gpt-4o-mini" in contextgrid("check", experiment_file).stdout
    assert "Calls" not in contextgrid("check", experiment_file, "--no-costs").stdout
    set_run(experiment_file, budget_usd=0.0001)
    experiment_file.write_text(experiment_file.read_text().replace("max_tokens: 100", "max_tokens: 99"))
    experiment = cg.Experiment.load(experiment_file)
    assert "will not cover them" in describe(estimate(experiment), experiment.run.call_settings)[-1]


def test_the_commands_run_within_a_budget_replay_and_show_what_was_spent(
    server: Loopback, experiment_file: Path, contextgrid: Callable[..., Outcome]
) -> None:
    nothing = contextgrid("spend", experiment_file)
    assert nothing.returncode == 2
    assert "nothing was called yet" in nothing.stderr
    part = contextgrid("run", experiment_file, "--budget", "0.0002")
    assert part.returncode == 1
    assert "skipped_budget:" in part.stderr
    whole = contextgrid("run", experiment_file)
    assert whole.returncode == 0, whole.stderr
    assert "spent now; at their original price" in whole.stdout
    paid = len(server.requests)
    replayed = contextgrid("run", experiment_file, "--replay")
    assert replayed.returncode == 0, replayed.stderr
    assert len(server.requests) == paid
    by_cell = contextgrid("spend", experiment_file, "--by", "cell")
    assert by_cell.returncode == 0, by_cell.stderr
    assert "auto__recursive-512__bm25" in by_cell.stdout
    ledger = experiment_file.parent / ".contextgrid" / "ledger.sqlite"
    by_model = contextgrid("spend", ledger)
    assert "openai:gpt-4o-mini" in by_model.stdout
    assert f" {paid} " in by_model.stdout
    fresh = contextgrid("run", experiment_file, "--fresh")
    assert fresh.returncode == 0, fresh.stderr
    assert len(server.requests) == 2 * paid
    assert contextgrid("run", experiment_file, "--fresh", "--replay").returncode == 2
    experiment_file.write_text(experiment_file.read_text().replace("max_tokens: 100", "max_tokens: 99"))
    missing = contextgrid("run", experiment_file, "--replay")
    assert missing.returncode == 2
    assert "calls are not recorded; the first, 'q0': replay: the ledger" in missing.stderr
    assert len(server.requests) == 2 * paid


def test_the_judge_s_calls_are_stated_too_and_none_are_left_after_a_run(
    server: Loopback, experiment_file: Path
) -> None:
    pytest.importorskip("deepeval")
    text = experiment_file.read_text()
    experiment_file.write_text(text.replace("judge: null", "judge: {metrics: [answer_relevancy], rubric: [relevance]}"))
    experiment = cg.Experiment.load(experiment_file)
    before = estimate(experiment)
    assert {item.stage for item in before.needed} == {"answers", "judge_scores"}
    assert "what judges will be asked" in describe(before, experiment.run.call_settings)[-1]
    run(experiment_file)
    assert 0.5 * before.calls < len(server.requests) < 2 * before.calls
    assert estimate(experiment).calls == 0


def test_no_more_judge_calls_and_dollars_than_stated_though_every_reply_differs_and_is_long(
    server: Loopback, experiment_file: Path
) -> None:
    pytest.importorskip("deepeval")
    numbers = itertools.count()

    def long_reply(prompt: str) -> str:
        number = next(numbers)
        kind = kind_of(prompt)
        if kind == "rating":
            return f"Score: 3\nJustification: {f'rated{number} ' * 500}"
        if kind == "answer":
            return f"answer{number} " * 100
        said = f"said{number} " * 480
        verdict = {"verdict": "no", "statement": "S.", "reason": said}
        lists = {name: [said] for name in ("truths", "claims", "statements")}
        return json.dumps({**lists, "verdicts": [verdict], "reason": "Because."})

    server.reply_for = long_reply
    metrics = "metrics: [faithfulness, answer_relevancy, contextual_relevancy], rubric: [relevance]"
    text = experiment_file.read_text().replace("[bm25, dense]", "bm25")
    text = text.replace(f'model: "{server.spec}"', f'model: ["{server.spec}", "{server.spec},temperature=1"]')
    experiment_file.write_text(text.replace("judge: null", f'judge: {{model: "{server.spec}", {metrics}}}'))
    experiment = cg.Experiment.load(experiment_file)
    before = estimate(experiment)
    run(experiment_file)
    made = Counter("answers" if kind == "answer" else "judge_scores" for kind in server.kinds().elements())
    stated: Counter[str] = Counter()
    for item in before.needed:
        stated[item.stage] += item.to_make
    assert made["answers"] == stated["answers"] == 2 * QUESTIONS
    assert QUESTIONS < made["judge_scores"] <= stated["judge_scores"] <= 1.2 * made["judge_scores"]
    assert before.usd_at_most is not None
    assert 0 < spent(experiment.run.call_settings) <= before.usd_at_most


def test_that_judge_calls_are_guessed_is_said_also_where_only_their_replies_are_missing() -> None:
    judging = Needed("judge_scores", "openai:a", 9, 3, 0.1, 0.2)
    answering = Needed("answers", "openai:a", 9, 9, 0.0, 0.0)
    assert describe(Estimate((answering, judging)), CallSettings())[-1].endswith("is guessed")
    held = replace(judging, held=9)
    assert not any("is guessed" in line for line in describe(Estimate((answering, held)), CallSettings()))
