"""The printed examples of the documentation pages that need a corpus, a pipeline or a runner."""

from __future__ import annotations

import pytest

import contextgrid as cg
from contextgrid.core.documents import MediaType
from contextgrid.core.evalset import EvalItem, EvalSet, GoldAnchor
from contextgrid.corpus import Corpus
from contextgrid.evalset.llm import LLMError, RecordingLLM
from contextgrid.grid.runner import Runner
from contextgrid.pipeline import Config

QUESTION = "How long do refunds take?"


@pytest.fixture
def corpus() -> Corpus:
    return cg.Corpus.from_texts(
        {
            "refunds.md": "refunds take within 30 days of purchase. digital goods are not refundable once downloaded.",
            "shipping.md": "express shipping arrives the next business day.",
        }
    )


def config(generator: str | None = None) -> Config:
    return cg.Config(
        parser="markdown", chunker="recursive:512", embedder="tfidf", index="dense", k=2, generator=generator
    )


def test_the_extractive_pipeline_answers_as_printed(corpus: Corpus) -> None:
    pipeline = cg.build(config("extractive"), corpus)
    assert str(pipeline.generator) == "ExtractiveGenerator(sentences=2)"
    ids = pipeline.search(QUESTION)
    answer, context = pipeline.answer(QUESTION, ids)
    assert str(answer) == (
        "Answer(text='refunds take within 30 days of purchase. digital goods are not refundable once downloaded.',"
        " prompt_tokens=39, completion_tokens=0, citations=(1,))"
    )
    assert context.text == (
        "[1] refunds.md\n"
        "refunds take within 30 days of purchase. digital goods are not refundable once downloaded.\n"
        "\n---\n\n"
        "[2] shipping.md\n"
        "express shipping arrives the next business day."
    )


def test_answering_without_a_generator_raises_as_printed(corpus: Corpus) -> None:
    pipeline = cg.build(config(), corpus)
    assert pipeline.generator is None
    with pytest.raises(cg.ContextGridError) as caught:
        pipeline.answer(QUESTION, ["refunds.md:0-90"])
    assert str(caught.value) == (
        "this pipeline has no generator configured -- check `pipeline.generator is not None` before calling `answer`"
    )


def test_a_recorded_model_answers_as_printed(corpus: Corpus) -> None:
    llm = cg.RecordingLLM(default="refunds take within 30 days of purchase [1].")
    pipeline = cg.build(config("llm"), corpus, llm=llm)
    ids = pipeline.search(QUESTION)
    assert ids == ["refunds.md:0-90", "shipping.md:0-47"]
    answer, context = pipeline.answer(QUESTION, ["refunds.md:0-90", "shipping.md:0-47"])
    assert str(answer) == (
        "Answer(text='refunds take within 30 days of purchase [1].', prompt_tokens=39, completion_tokens=0,"
        " citations=(1,))"
    )
    assert llm.prompts[0][:120] == (
        "Answer the question using only the passages below.\n"
        "Cite the passages you used by their number, like [1].\n"
        "If the passages"
    )
    score = cg.score_answer(cg.EvalItem(id="q1", question=QUESTION), answer, context)
    assert str(score) == (
        "AnswerScore(item_id='q1', groundedness=1.0, citation_accuracy=1.0, evidence_overlap=0.0, abstained=False,"
        " should_have_abstained=True, warnings=[])"
    )


def test_the_llm_generator_without_a_model_fails_before_anything_is_indexed(corpus: Corpus) -> None:
    class Unreadable:
        def to_table(self) -> None:
            raise AssertionError("the corpus was read")

    with pytest.raises(LLMError) as caught:
        cg.build(config("llm"), Unreadable())  # type: ignore[arg-type]
    assert isinstance(caught.value, cg.ContextGridError)
    assert str(caught.value) == (
        "the 'llm' generator needs a model. Set `run.model` in your config, or use one of the model-free generators:"
        " extractive"
    )


def test_an_unknown_passage_id_is_refused(corpus: Corpus) -> None:
    pipeline = cg.build(config("extractive"), corpus)
    with pytest.raises(cg.ContextGridError, match=r"no passage .refunds\.md:0-91"):
        pipeline.answer(QUESTION, ["refunds.md:0-91"])


def test_run_one_answers_with_the_first_scripted_reply() -> None:
    text = "Either party may terminate this agreement for convenience by giving thirty days written notice."
    corpus = Corpus.from_texts({"contract.md": text}, media_type=MediaType.MARKDOWN)
    anchor = GoldAnchor(source_id="contract.md", quote="thirty days")
    item = EvalItem(id="q1", question="How much notice is needed to terminate for convenience?", anchors=(anchor,))
    llm = RecordingLLM(replies=["Thirty days written notice is required [1]."])
    runner = Runner(corpus=corpus, headline="recall@5", llm=llm)
    result = runner.run_one(Config(generator="llm"), EvalSet(id="es", items=(item,)))
    assert result.answers is not None
    assert result.answers["answer"].to_pylist() == ["Thirty days written notice is required [1]."]
    assert result.metrics["recall@5"] == 1.0
    assert result.metrics["abstention_accuracy"] == 1.0
    assert result.metrics["citation_accuracy"] == 1.0


def test_config_is_frozen_with_generator_last_and_prompt_and_model_before_it() -> None:
    names = list(Config.__dataclass_fields__)
    assert names[-3:] == ["prompt", "model", "generator"]
    with pytest.raises(AttributeError):
        Config().k = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"k": 0}, "k must be from 1"), ({"k": 10_001}, "k must be from 1"), ({"candidates": 2}, "candidates")],
)
def test_a_config_that_cannot_work_is_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(cg.ContextGridError, match=message):
        Config(**settings)  # type: ignore[arg-type]


def test_every_top_level_name_exists() -> None:
    for name in cg.__all__:
        assert getattr(cg, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = cg.nonsense
