"""Hosted embeddings and reranking through the real LiteLLM against a server on loopback."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import contextgrid as cg
from contextgrid import stages
from contextgrid.core.axes import Retrieval
from contextgrid.core.errors import ConfigError
from contextgrid.embed import EMBEDDERS
from contextgrid.evalset.llm import LLMError
from contextgrid.index import PassageIndex
from contextgrid.models.calls import BudgetExceeded, CallSettings, ReplayMiss, begin_run, count_calls
from contextgrid.models.prices import CostModel
from contextgrid.models.purpose import calls_for, no_calls
from contextgrid.rerank import RERANKERS
from contextgrid.settings import RunSettings
from tests.loopback import KEY, Fault, Loopback, relevance_of, vector_of

PASSAGES = [
    "Refunds are paid within thirty days of purchase.",
    "Express parcels arrive on the next working day.",
    "The warranty for engines lasts twenty-four months.",
    "Gift cards are never refunded.",
]
DOCUMENTS = {f"d{number}.md": text for number, text in enumerate(PASSAGES)}
EVALSET = cg.EvalSet(
    "es",
    (
        cg.EvalItem("q1", "When are refunds paid?", (cg.GoldAnchor("d0.md", "thirty days"),)),
        cg.EvalItem("q2", "When do express parcels arrive?", (cg.GoldAnchor("d1.md", "next working day"),)),
        cg.EvalItem("q3", "How long is the warranty for engines?", (cg.GoldAnchor("d2.md", "twenty-four months"),)),
    ),
)
PRICES = {"openai:small": (0.02, 0.0), "hosted_vllm:ranker": (0.05, 0.0)}


def embedder(server: Loopback, options: str = "") -> str:
    return f"hosted:openai/small,api_base={server.url}{options}"


def reranker(server: Loopback, options: str = "") -> str:
    return f"hosted:hosted_vllm/ranker,api_base={server.url}{options}"


def settings(ledger: str | None, **others: object) -> CallSettings:
    prices = tuple((name, *price) for name, price in PRICES.items())
    return CallSettings(ledger=ledger, prices=prices, **others)  # type: ignore[arg-type]


def embed(server: Loopback, texts: list[str], calls: CallSettings, options: str = "") -> np.ndarray:
    with calls_for(lambda: calls, "index", "cell"):
        return np.asarray(EMBEDDERS.build(embedder(server, options)).fit(texts)[1])


def rank(server: Loopback, questions: list[str], passages: list[list[str]], calls: CallSettings) -> list[np.ndarray]:
    with calls_for(lambda: calls, "retrieved_ids", "row"):
        return list(RERANKERS.build(reranker(server)).scores(questions, passages))


def unit(texts: list[str], dimensions: int = 64) -> np.ndarray:
    vectors = np.array([vector_of(text, dimensions) for text in texts])
    scaled: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


def texts_sent(server: Loopback) -> list[str]:
    return [text for request in server.requests for text in request.get("input", [])]


def rows_of(ledger: str, columns: str) -> list[Any]:
    with sqlite3.connect(ledger) as connection:
        return connection.execute(f"SELECT {columns} FROM calls ORDER BY 1").fetchall()


# embeddings


def test_vectors_are_the_providers_scaled_to_length_one(server: Loopback, ledger: str) -> None:
    vectors = embed(server, PASSAGES, settings(ledger), ",batch=3")
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, unit(PASSAGES), atol=1e-6)
    assert sorted(len(request["input"]) for request in server.requests) == [1, 3]
    assert {request["path"] for request in server.requests} == {"/v1/embeddings"}


def test_batches_go_side_by_side_within_the_limit(server: Loopback, ledger: str) -> None:
    server.delay = 0.05
    embed(server, [f"text {number}" for number in range(12)], settings(ledger, concurrency=3), ",batch=2")
    assert (len(server.requests), server.peak) == (6, 3)


def test_every_text_is_paid_once_whatever_the_batch(server: Loopback, ledger: str) -> None:
    with count_calls() as first:
        before = embed(server, [*PASSAGES, PASSAGES[0]], settings(ledger), ",batch=2")
    with count_calls() as second:
        after = embed(server, [*PASSAGES[::-1], "One more."], settings(ledger), ",batch=64")
    assert sorted(texts_sent(server)) == sorted([*PASSAGES, "One more."])
    assert (first.calls, first.hits, second.calls, second.hits) == (4, 1, 1, 4)
    assert np.array_equal(before[:4], after[3::-1])


def test_what_another_model_or_length_gives_is_another_call(server: Loopback, ledger: str) -> None:
    assert embed(server, PASSAGES, settings(ledger), ",dimensions=8").shape == (4, 8)
    assert embed(server, PASSAGES, settings(ledger)).shape == (4, 64)
    assert [request.get("dimensions") for request in server.requests] == [8, None]


def test_the_ledger_holds_one_entry_for_each_text_and_shares_out_the_tokens(server: Loopback, ledger: str) -> None:
    embed(server, PASSAGES, settings(ledger))
    rows = rows_of(ledger, "kind, model, stage, cell, input")
    assert rows == [("embedding", "openai:small", "index", "cell", None)] * 4
    tokens = sum(len(text.split()) for text in PASSAGES)
    ((counted, usd, replies),) = rows_of(ledger, "SUM(prompt_tokens), SUM(usd), MAX(LENGTH(reply))")
    assert (counted, usd) == (tokens, pytest.approx(tokens * 0.02 / 1e6))
    assert replies == 344  # 64 numbers of 4 bytes in base64
    assert KEY.encode() not in Path(ledger).read_bytes()


def test_blank_texts_are_not_sent_and_have_no_direction(server: Loopback, ledger: str) -> None:
    vectors = embed(server, ["", PASSAGES[0], " "], settings(ledger))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [0, 1, 0], atol=1e-6)
    assert texts_sent(server) == [PASSAGES[0]]


def test_a_length_that_changed_since_the_index_was_built_is_an_error(server: Loopback) -> None:
    plugin = EMBEDDERS.build(embedder(server, ",dimensions=8"))
    fitted = plugin.restore({"length": np.array([16])})
    assert fitted.embed([]).shape == (0, 16)
    with pytest.raises(ConfigError, match="length 8, but the index was built with 16"):
        fitted.embed(["Why?"])


# reranking


def test_scores_are_the_models_in_the_order_of_the_passages(server: Loopback, ledger: str) -> None:
    questions = ["When are refunds paid?", "Gift cards?", "No candidates?"]
    found = rank(server, questions, [PASSAGES, PASSAGES[::-1], []], settings(ledger))
    expected = [[relevance_of(questions[0], text) for text in PASSAGES]]
    expected += [[relevance_of(questions[1], text) for text in PASSAGES[::-1]], []]
    assert [scores.tolist() for scores in found] == expected
    assert len(server.requests) == 2
    assert rows_of(ledger, "kind, model, stage, cell") == [("rerank", "hosted_vllm:ranker", "retrieved_ids", "row")] * 2


def test_a_question_with_the_same_candidates_is_paid_once(server: Loopback, ledger: str) -> None:
    for passages in (PASSAGES, PASSAGES, PASSAGES[:2]):
        rank(server, ["Why?"], [passages], settings(ledger))
    assert len(server.requests) == 2


def test_cohere_is_asked_in_its_own_way_and_billed_by_search(
    server: Loopback, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    base = server.url.removesuffix("/v1")
    with calls_for(lambda: settings(ledger, budget_usd=1), "retrieved_ids"), count_calls() as meter:
        RERANKERS.build(f"hosted:cohere/rerank-v3.5,api_base={base},key_env=MY_KEY").scores(["Why?"], [PASSAGES])
    assert (server.requests[0]["path"], server.requests[0]["key"]) == ("/v2/rerank", f"Bearer {KEY}")
    assert meter.spent == pytest.approx(0.002)


# what goes wrong


def embed_two(server: Loopback, calls: CallSettings) -> object:
    return embed(server, PASSAGES[:2], calls)


def rank_two(server: Loopback, calls: CallSettings) -> object:
    return rank(server, ["When are refunds paid?"], [PASSAGES[:2]], calls)


both = pytest.mark.parametrize("call", [embed_two, rank_two], ids=["embedding", "rerank"])


@both
@pytest.mark.parametrize("fault", [Fault.too_many("0.3"), Fault("status", 500), Fault("drop")], ids=lambda f: f.kind)
def test_what_fails_for_a_passing_reason_is_tried_again(
    server: Loopback, ledger: str, call: object, fault: Fault
) -> None:
    server.faults.append(fault)
    call(server, settings(ledger))  # type: ignore[operator]
    assert len(server.requests) == 2
    if fault.status == 429:
        assert server.times[1] - server.times[0] >= 0.3


@both
def test_there_is_no_retrying_below_ours(server: Loopback, ledger: str, call: object) -> None:
    server.fault_for = lambda prompt: Fault.too_many()
    with pytest.raises(LLMError, match="RateLimitError"):
        call(server, settings(ledger, retries=0))  # type: ignore[operator]
    assert len(server.requests) == 1


@both
@pytest.mark.parametrize("kind", ["truncated", "empty"])
def test_a_reply_that_is_not_complete_is_an_error_and_not_kept(
    server: Loopback, ledger: str, call: object, kind: str
) -> None:
    server.faults.append(Fault(kind))  # type: ignore[arg-type]
    with pytest.raises(LLMError):
        call(server, settings(ledger, retries=0))  # type: ignore[operator]
    assert rows_of(ledger, "key") == []


@both
def test_neither_key_nor_text_is_in_messages_or_logs(
    server: Loopback,
    ledger: str,
    call: object,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    server.fault_for = lambda prompt: Fault("status", 401)
    with pytest.raises(LLMError) as caught:
        call(server, settings(ledger))  # type: ignore[operator]
    server.fault_for = None
    call(server, settings(ledger))  # type: ignore[operator]
    said = str(caught.value) + caplog.text + "".join(capfd.readouterr())
    assert "refused" in str(caught.value)
    for secret in (KEY, "parcels", "thirty days", "refunds paid"):
        assert secret not in said


@both
def test_a_replay_calls_nothing_and_says_what_it_misses(server: Loopback, ledger: str, call: object) -> None:
    begin_run(settings(ledger))
    call(server, settings(ledger))  # type: ignore[operator]
    server.clear()
    call(server, settings(ledger, mode="replay"))  # type: ignore[operator]
    with pytest.raises(ReplayMiss, match=r"holds no embedding of model 'openai:small' for . of 2 inputs"):
        embed(server, [PASSAGES[0], "Never seen."], settings(ledger, mode="replay"))
    with pytest.raises(ReplayMiss, match="holds no rerank of model"):
        rank(server, ["Never asked?"], [PASSAGES], settings(ledger, mode="replay"))
    assert server.requests == []


@both
def test_a_fresh_run_calls_once_more_and_once_only(server: Loopback, ledger: str, call: object) -> None:
    call(server, settings(ledger))  # type: ignore[operator]
    fresh = settings(ledger, mode="fresh")
    begin_run(fresh)
    call(server, fresh)  # type: ignore[operator]
    call(server, fresh)  # type: ignore[operator]
    assert len(server.requests) == 2
    assert {repetition for (repetition,) in rows_of(ledger, "repetition")} == {0, 1}


@both
def test_an_estimate_serves_what_is_held_and_calls_nothing(server: Loopback, ledger: str, call: object) -> None:
    with no_calls(), pytest.raises(LLMError, match="not in the ledger, and nothing is called here"):
        call(server, settings(ledger))  # type: ignore[operator]
    assert server.requests == []
    call(server, settings(ledger))  # type: ignore[operator]
    with no_calls():
        call(server, settings(ledger))  # type: ignore[operator]
    assert len(server.requests) == 1


@both
def test_a_budget_is_kept(server: Loopback, ledger: str, call: object) -> None:
    tight = settings(ledger, budget_usd=1e-9)
    begin_run(tight)
    with pytest.raises(BudgetExceeded):
        call(server, tight)  # type: ignore[operator]
    assert server.requests == []
    with pytest.raises(ConfigError, match="there is no price for model"):
        call(server, CallSettings(ledger=ledger, budget_usd=1))  # type: ignore[operator]


def test_prices_are_per_token_or_per_search() -> None:
    pytest.importorskip("litellm")
    costs = CostModel()
    assert list(costs.tariff("openai:text-embedding-3-small") or ()) == [pytest.approx(0.02), 0.0]
    assert list(costs.tariff("cohere:rerank-v3.5") or ()) == [0.0, 0.002]
    assert costs.tariff("hosted_vllm:ranker") is None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hosted:small", "write provider/model"),
        ("hosted:openai/small,key_env=sk-not-a-name", "key_env must be the name of an environment variable$"),
        ("hosted:openai/small,api_base=http://me:secret@host/v1", "api_base must be an address"),
        ("hosted:openai/small,api_key=sk-abc", "has no option 'api_key'"),
        ("hosted", "needs 'model'"),
    ],
)
def test_specs_that_cannot_work_are_refused_and_keys_not_repeated(spec: str, message: str) -> None:
    for registry in (EMBEDDERS, RERANKERS):
        with pytest.raises(ConfigError, match=message) as caught:
            registry.build(spec)
        assert not any(secret in str(caught.value) for secret in ("sk-", "secret"))
    with pytest.raises(ConfigError, match="batch must be at least 1, got 0"):
        EMBEDDERS.build("hosted:openai/small,batch=0")


def test_a_key_that_is_asked_for_by_name_has_to_be_set(server: Loopback, ledger: str) -> None:
    with pytest.raises(LLMError, match=r"MISSING_KEY \(key_env\) is not set"):
        embed(server, PASSAGES, settings(ledger), ",key_env=MISSING_KEY")


# in the stages


def chunks() -> pa.Table:
    corpus = cg.Corpus.from_texts(DOCUMENTS).to_table()
    return stages.chunk_documents(stages.parse_corpus(corpus, "markdown"), "recursive:200")


def test_an_index_ranks_as_the_vectors_say_before_and_after_storing(server: Loopback, ledger: str) -> None:
    from contextgrid.evalset import evalset_to_table

    run = RunSettings(ledger=ledger, cutoffs=(3,), headline="recall@3", k=3)
    row = Retrieval("markdown", "recursive:200", embedder(server), "dense", None, None, None)
    built = stages.build_index(chunks(), row.embedder, row.index, run)
    questions = [item.question for item in EVALSET.items]
    cosines = np.round(unit(questions) @ unit(PASSAGES).T, 6)
    expected = np.argsort(-cosines, axis=1, kind="stable")[:, :3]
    again = PassageIndex.from_bytes(built.to_bytes())
    assert again.fingerprint() == built.fingerprint()
    for index in (built, again):
        ranked = stages.retrieve(index, evalset_to_table(EVALSET), row, run)
        texts = np.array(ranked["text"].to_pylist()).reshape(3, 3)
        assert texts.tolist() == [[PASSAGES[number] for number in best] for best in expected]
    assert len(texts_sent(server)) == len(PASSAGES) + len(questions)
    # How calls are made is no part of an index.
    other = RunSettings(ledger=ledger, concurrency=2, retries=1)
    assert stages.build_index(chunks(), row.embedder, row.index, other).fingerprint() == built.fingerprint()


def lab(server: Loopback, ledger: str, **others: Any) -> cg.Lab:
    run = RunSettings(
        ledger=ledger, cutoffs=(1, 3), headline="recall@3", k=3, resamples=100, prices=PRICES, retries=0, **others
    )
    return cg.Lab(cg.Corpus.from_texts(DOCUMENTS), settings=run).grid(
        parser="markdown",
        chunker="recursive:200",
        embedder=["tfidf", embedder(server)],
        index=["dense", "hybrid"],
        reranker=[None, reranker(server)],
        generator=None,
    )


def test_a_grid_pays_for_every_text_once_and_a_second_run_for_nothing(server: Loopback, ledger: str) -> None:
    first = lab(server, ledger).run(EVALSET)
    assert not first.failed
    sent = texts_sent(server)
    assert len(sent) == len(set(sent)) == len(PASSAGES) + len(EVALSET.items)
    stages_paid: dict[Any, Any] = dict(
        rows_of(ledger, "stage, COUNT(*)  FROM calls WHERE kind = 'embedding' GROUP BY 1 --")
    )
    assert stages_paid == {"index": len(PASSAGES), "retrieved_ids": len(EVALSET.items)}
    server.clear()
    for settings_of_second in ({}, {"calls": "replay"}):
        again = lab(server, ledger, **settings_of_second).run(EVALSET)
        assert again.leaderboard.equals(first.leaderboard)
    assert server.requests == []


def test_a_failing_call_fails_the_rows_that_need_it_and_no_other(server: Loopback, ledger: str) -> None:
    server.fault_for = lambda prompt: Fault("status", 400) if "parcels arrive on" in prompt else None
    results = lab(server, ledger).run(EVALSET)
    assert len(results) == len(results.failed) == 4
    assert all("model 'openai:small' failed" in text for key, text in results.failed.items())
    server.fault_for = None
    assert not lab(server, ledger).run(EVALSET).failed


def test_stating_the_costs_of_a_grid_calls_nothing(server: Loopback, ledger: str, tmp_path: Path) -> None:
    """``check`` and ``plan`` look at what a run needs; they must not pay to find out."""
    from contextgrid.grid.costs import stated_needs

    (tmp_path / "documents").mkdir()
    for name, text in DOCUMENTS.items():
        (tmp_path / "documents" / name).write_text(text, encoding="utf-8")
    (tmp_path / "q.jsonl").write_text('{"id": "q", "question": "How long do refunds take?"}\n', encoding="utf-8")
    file = tmp_path / "experiment.yaml"
    file.write_text(
        f'name: x\ncorpus: documents\nevalset: q.jsonl\ngrid:\n  embedder: "{embedder(server)}"\n  index: dense\n'
        f"run: {{ledger: {ledger}}}\n",
        encoding="utf-8",
    )
    assert "not known" in stated_needs(cg.Experiment.load(file))[0]
    assert server.requests == []
