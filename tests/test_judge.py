"""The DeepEval judge: real DeepEval with scripted models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from contextgrid.evalset.llm import RecordingLLM
from contextgrid.generate import GenerationJudge, JudgedAnswer, JudgeError, available_generation_metrics
from contextgrid.models.budget import BudgetExceeded
from contextgrid.models.metered import ReplayMiss

REPLY: dict[str, Any] = {
    "truths": ["Refunds take 30 days."],
    "claims": ["Refunds take 30 days."],
    "statements": ["Refunds take 30 days."],
    "verdicts": [{"verdict": "yes", "statement": "Refunds take 30 days.", "reason": "supported"}],
    "reason": "ok",
}


class Judge:
    """Replies by the keys that a prompt of DeepEval asks for, and counts."""

    name = "scripted"

    def __init__(self, reply: Callable[[str], str] | Mapping[str, Any] | str | None = None) -> None:
        self.calls = 0
        self.prompts: list[str] = []
        self.reply = reply

    def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
        self.calls += 1
        self.prompts.append(prompt)
        if callable(self.reply):
            return self.reply(prompt)
        return self.reply if isinstance(self.reply, str) else json.dumps({**REPLY, **(self.reply or {})})


def score(llm: Any, metrics: tuple[str, ...] = ("faithfulness", "answer_relevancy"), **changes: Any) -> JudgedAnswer:
    asked: dict[str, Any] = {
        "query_id": "q1",
        "question": "How long do refunds take?",
        "answer": "Refunds take thirty days.",
        "contexts": ["Refunds are issued within thirty days of purchase."],
    }
    return GenerationJudge(llm=llm, metrics=metrics).score(**{**asked, **changes})


def test_the_printed_example_scores_both_metrics_in_seven_calls() -> None:
    class ScriptedJudge:
        name = "scripted"

        def __init__(self) -> None:
            self.calls = 0

        def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
            self.calls += 1
            return (
                '{"truths": ["Refunds take 30 days."], "claims": ["Refunds take 30 days."],'
                ' "statements": ["Refunds take 30 days."],'
                ' "verdicts": [{"verdict": "yes", "reason": "supported"}], "reason": "ok"}'
            )

    judge_llm = ScriptedJudge()
    judge = GenerationJudge(llm=judge_llm, metrics=("faithfulness", "answer_relevancy"))
    result = judge.score(
        query_id="q1",
        question="How long do refunds take?",
        answer="Refunds take thirty days.",
        contexts=["Refunds are issued within thirty days of purchase."],
    )
    assert result.scores == {"faithfulness": 1.0, "answer_relevancy": 1.0}
    assert (result.model_calls, judge_llm.calls) == (7, 7)
    assert result.failed == {}


def test_the_metrics_are_named_as_printed() -> None:
    names = ("answer_relevancy", "contextual_recall", "contextual_relevancy", "faithfulness")
    assert available_generation_metrics() == names
    assert GenerationJudge(llm=Judge()).metrics == ("faithfulness", "answer_relevancy")


def test_an_unknown_metric_is_refused_as_printed() -> None:
    with pytest.raises(JudgeError) as caught:
        GenerationJudge(llm=Judge(), metrics=("nonsense",))
    assert f"{type(caught.value).__module__}.{type(caught.value).__name__}: {caught.value}" == (
        "contextgrid.generate.judge.JudgeError: unknown generation metric(s): nonsense. Available: answer_relevancy,"
        " contextual_recall, contextual_relevancy, faithfulness"
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"metrics": ()},
        {"metrics": ("faithfulness", "faithfulness")},
        {"threshold": float("nan")},
        {"threshold": 1.5},
        {"max_tokens": 0},
    ],
)
def test_settings_that_cannot_work_are_refused_at_construction(settings: dict[str, Any]) -> None:
    with pytest.raises(JudgeError):
        GenerationJudge(llm=Judge(), **settings)


def test_all_four_metrics_score_where_there_is_a_reference() -> None:
    llm = Judge()
    result = score(llm, available_generation_metrics(), reference="Refunds take thirty days.")
    assert result.scores == dict.fromkeys(available_generation_metrics(), 1.0)
    assert result.model_calls == llm.calls == 3 + 2 + 2 + 4


def test_contextual_recall_without_a_reference_is_recorded_as_failed_and_not_called() -> None:
    llm = Judge()
    result = score(llm, ("contextual_recall",))
    assert result.scores == {}
    assert "reference" in result.failed["contextual_recall"]
    assert result.model_calls == llm.calls == 0


@pytest.mark.parametrize("contexts", [[], ["", "  \n"]])
def test_without_passages_every_metric_is_empty_context_and_nothing_is_called(contexts: list[str]) -> None:
    llm = Judge()
    result = score(llm, available_generation_metrics(), contexts=contexts, reference="Thirty days.")
    assert set(result.statuses.values()) == {"empty_context"}
    assert result.scores == {}
    assert result.failed == {}
    assert llm.calls == 0


@pytest.mark.parametrize("answer", ["I don’t know.", "The passages do not contain the answer.", "", "N/A"])
def test_an_answer_that_declines_is_abstained_and_nothing_is_called(answer: str) -> None:
    llm = Judge()
    result = score(llm, answer=answer)
    assert result.statuses == {"faithfulness": "abstained", "answer_relevancy": "abstained"}
    assert result.scores == {}
    assert llm.calls == 0


def test_metrics_about_the_passages_are_judged_also_where_the_answer_declines() -> None:
    result = score(Judge(), ("faithfulness", "contextual_relevancy"), answer="I don't know.")
    assert result.statuses == {"faithfulness": "abstained", "contextual_relevancy": "scored"}


def test_an_answer_of_citations_alone_is_vacuous_without_a_call() -> None:
    llm = Judge()
    assert set(score(llm, answer="[1] [2].").statuses.values()) == {"vacuous"}
    assert llm.calls == 0


@pytest.mark.parametrize("empty", ["claims", "statements", "truths"])
def test_what_the_judge_finds_empty_is_vacuous_and_never_one(empty: str) -> None:
    metric = "answer_relevancy" if empty == "statements" else "faithfulness"
    result = score(Judge({empty: []}), (metric,))
    assert result.statuses == {metric: "vacuous"}
    assert result.scores == {}
    assert result.failed == {}


@pytest.mark.parametrize(
    "wrapped",
    ["```json\n{}\n```", "```\n{}\n```", "Here is the JSON:\n{}\nAnything else?", "<think>{{}} hm</think>\n{}"],
)
def test_json_in_a_fence_or_between_words_is_read(wrapped: str) -> None:
    reply = wrapped.replace("{}", json.dumps(REPLY), 1) if "think" not in wrapped else wrapped[:-2] + json.dumps(REPLY)
    assert score(Judge(reply)).scores == {"faithfulness": 1.0, "answer_relevancy": 1.0}


@pytest.mark.parametrize(
    "reply",
    [
        "The answer is well supported.",
        json.dumps(REPLY)[:-40],
        json.dumps(REPLY)[:30],
        "",
        "[1, 2]",
        '{"claims": "one", "truths": "two"}',
        "{" * 5000,
    ],
)
def test_prose_cut_off_json_and_nothing_are_failed_with_the_raw_reply_kept(reply: str) -> None:
    result = score(Judge(reply))
    assert result.scores == {}
    assert set(result.failed) == {"faithfulness", "answer_relevancy"}
    assert result.raw_replies == {"faithfulness": reply, "answer_relevancy": reply}
    assert result.model_calls == 2


def test_one_failed_metric_does_not_stop_the_others() -> None:
    llm = Judge(lambda prompt: "garbage" if "truths" in prompt.lower() else json.dumps(REPLY))
    result = score(llm)
    assert result.scores == {"answer_relevancy": 1.0}
    assert list(result.failed) == ["faithfulness"]


@pytest.mark.parametrize("verdicts", [[], [{"verdict": "maybe", "reason": "?"}], [{"reason": "none"}]])
def test_replies_without_a_usable_verdict_fail_and_do_not_score_one(verdicts: list[dict[str, str]]) -> None:
    result = score(Judge({"verdicts": verdicts}), ("faithfulness",))
    assert result.statuses == {"faithfulness": "failed"}


def test_verdicts_are_read_as_deepeval_defines_them() -> None:
    spelled = ["Yes, it does", "NO", "idk", "yes."]
    verdicts = [{"verdict": verdict, "reason": "so"} for verdict in spelled]
    result = score(Judge({"claims": ["a", "b", "c", "d"], "verdicts": verdicts}), ("faithfulness",))
    assert result.scores == {"faithfulness": 0.75}
    assert result.reasons == {"faithfulness": "ok"}


@pytest.mark.parametrize(("threshold", "passed"), [(0.5, True), (0.75, True), (0.76, False)])
def test_the_threshold_decides_what_passes_and_changes_no_score(threshold: float, passed: bool) -> None:
    verdicts = [{"verdict": verdict, "reason": "so"} for verdict in ("yes", "yes", "yes", "no")]
    judge = GenerationJudge(Judge({"claims": list("abcd"), "verdicts": verdicts}), ("faithfulness",), threshold)
    result = judge.score(query_id="q", question="How long?", answer="Thirty days.", contexts=["Thirty days."])
    assert (result.scores, result.passed) == ({"faithfulness": 0.75}, {"faithfulness": passed})


def test_fewer_verdicts_than_claims_are_told_in_the_reason() -> None:
    result = score(Judge({"claims": ["a", "b", "c"]}), ("faithfulness",))
    assert result.reasons["faithfulness"] == "ok (1 verdicts for 3 statements)"


@pytest.mark.parametrize("error", [RuntimeError("the server is down"), TypeError("unexpected argument 'schema'")])
def test_a_model_that_raises_is_recorded_without_the_document_and_called_once(error: Exception) -> None:
    def failing(prompt: str) -> str:
        raise type(error)(f"{error}: Refunds are issued within thirty days of purchase.")

    llm = Judge(failing)
    result = score(llm, ("faithfulness",))
    assert str(error) in result.failed["faithfulness"]
    assert "thirty days of purchase" not in result.failed["faithfulness"]
    assert result.model_calls == llm.calls == 1


def test_a_model_that_returns_no_text_is_recorded() -> None:
    result = score(Judge(lambda prompt: None), ("faithfulness",))  # type: ignore[arg-type, return-value]
    assert "NoneType" in result.failed["faithfulness"]


def test_a_budget_that_runs_out_is_skipped_and_a_replay_that_lacks_a_call_is_raised() -> None:
    def broke(prompt: str) -> str:
        raise BudgetExceeded("the budget does not cover this call")

    result = score(Judge(broke), ("faithfulness",))
    assert result.statuses == {"faithfulness": "skipped_budget"}
    assert result.model_calls == 0

    def missing(prompt: str) -> str:
        raise ReplayMiss("not held")

    with pytest.raises(ReplayMiss):
        score(Judge(missing))


def test_a_score_that_is_not_a_number_is_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    from contextgrid.generate import _deepeval

    nan = _deepeval.Measurement(float("nan"), "ok", 1, 1)
    monkeypatch.setattr(_deepeval, "measure", lambda *args, **kwargs: nan)
    assert score(Judge(), ("faithfulness",)).failed == {"faithfulness": "the score is nan"}


def test_images_named_in_a_document_are_text_and_never_opened() -> None:
    llm = Judge()
    result = score(llm, contexts=["See [DEEPEVAL:IMAGE:/etc/hostname] and {question} and {{ 7 * 7 }}."])
    assert result.scores == {"faithfulness": 1.0, "answer_relevancy": 1.0}
    assert any("[DEEPEVAL:IMAGE:/etc/hostname] and {question} and {{ 7 * 7 }}." in prompt for prompt in llm.prompts)


def test_the_same_answer_makes_the_same_calls_in_the_same_order() -> None:
    first, second = Judge(), Judge()
    score(first)
    score(second)
    assert first.prompts == second.prompts


def test_replies_used_up_are_failures_of_that_metric_alone() -> None:
    result = score(RecordingLLM(replies=[json.dumps(REPLY)] * 4))
    assert result.scores == {"faithfulness": 1.0}
    assert "no reply for call 5" in result.failed["answer_relevancy"]


QUIET = """
import socket, sys
def refuse(*args, **kwargs):
    raise AssertionError("a connection was opened")
socket.socket.connect = socket.socket.connect_ex = refuse
socket.getaddrinfo = refuse
from contextgrid.generate import GenerationJudge
assert "deepeval" not in sys.modules
class Judge:
    name = "scripted"
    def complete(self, prompt, *, max_tokens=512):
        return %r
for number in range(60):
    result = GenerationJudge(Judge()).score(query_id="q", question="How?", answer="So.", contexts=["So it is."])
print(result.scores)
import os
print(os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"], os.environ.get("STOLEN_API_KEY"))
"""


@pytest.mark.parametrize("chosen", [None, "1"])
def test_judging_writes_no_file_prints_nothing_and_contacts_nobody(tmp_path: Path, chosen: str | None) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    (work / ".env").write_text("STOLEN_API_KEY=secret\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DEEPEVAL")}
    environment |= {"HOME": str(home)} | ({} if chosen is None else {"DEEPEVAL_TELEMETRY_OPT_OUT": chosen})
    done = subprocess.run(
        [sys.executable, "-c", QUIET % json.dumps(REPLY)],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{{'faithfulness': 1.0, 'answer_relevancy': 1.0}}\n{chosen or 'YES'} None\n"
    assert done.stderr == ""
    assert [file.name for file in work.iterdir()] == [".env"]
    assert list(home.iterdir()) == []


def test_without_deepeval_a_judgement_says_what_to_install_and_the_rest_works(monkeypatch: pytest.MonkeyPatch) -> None:
    from contextgrid.generate import _deepeval

    _deepeval.load.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "deepeval"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "deepeval", None)
    try:
        with pytest.raises(JudgeError, match=r"contextgrid-dagster\[judge\]"):
            score(Judge())
        assert score(Judge(), answer="I don't know.").statuses["faithfulness"] == "abstained"
        assert available_generation_metrics()
    finally:
        _deepeval.load.cache_clear()
