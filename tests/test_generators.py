from __future__ import annotations

import time

import pyarrow as pa
import pytest

from contextgrid.assemble.context import AssembledContext, ContextAssembler
from contextgrid.core.documents import Chunk
from contextgrid.core.errors import ConfigError, StageError
from contextgrid.core.span import Span
from contextgrid.core.tables import ANSWERS, RETRIEVED
from contextgrid.evalset.llm import LLMError, RecordingLLM
from contextgrid.generate import (
    DEFAULT_PROMPT,
    GENERATORS,
    MODEL_BACKED,
    Answer,
    ExtractiveGenerator,
    LLMGenerator,
    available_generators,
    check_generator,
    get_generator,
)
from contextgrid.generate.answering import answer_questions

REFUNDS = "refunds take within 30 days of purchase. digital goods are not refundable once downloaded."
SHIPPING = "express shipping arrives the next business day."


def chunk(text: str, source_id: str = "doc", start: int = 0) -> Chunk:
    return Chunk(f"{source_id}:{start}", Span(source_id, start, start + len(text)), text)


@pytest.fixture
def context() -> AssembledContext:
    return ContextAssembler().assemble([chunk(REFUNDS, "refunds.md"), chunk(SHIPPING, "shipping.md")])


# the axis


def test_generators_are_those_of_the_page() -> None:
    assert available_generators() == ("extractive", "llm")
    assert MODEL_BACKED == ("llm",)
    assert GENERATORS.names() == ("extractive",)
    assert get_generator(None) is None
    assert repr(get_generator("extractive")) == "ExtractiveGenerator(sentences=2)"
    assert get_generator("extractive:3") == ExtractiveGenerator(3)


def test_the_llm_generator_needs_a_model() -> None:
    with pytest.raises(LLMError) as raised:
        get_generator("llm")
    assert str(raised.value) == (
        "the 'llm' generator needs a model. Set `run.model` in your config, or use one of the model-free generators:"
        " extractive"
    )
    assert f"{type(raised.value).__module__}.{type(raised.value).__qualname__}" == "contextgrid.evalset.llm.LLMError"


def test_the_llm_generator_is_built_from_model_prompt_and_cap() -> None:
    llm = RecordingLLM()
    assert get_generator("llm", llm) == LLMGenerator(llm, DEFAULT_PROMPT, 400)
    assert get_generator("llm", llm, prompt="{context}{question}", max_tokens=9) == LLMGenerator(
        llm, "{context}{question}", 9
    )
    assert get_generator("llm:max_tokens=7", llm, max_tokens=9) == LLMGenerator(llm, DEFAULT_PROMPT, 7)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("extractive:0", "sentences must be at least 1, got 0"),
        ("extractive:two", "sentences must be a whole number"),
        ("extractve", "unknown generator 'extractve'; did you mean 'extractive'"),
        ("extractive:2,sentence=3", "no option 'sentence'; did you mean 'sentences'"),
        ("llm:max_token=3", "no option 'max_token'; did you mean 'max_tokens'"),
        ("llm:max_tokens=0", "max_tokens must be at least 1, got 0"),
        ("llm:max_tokens=-5", "max_tokens must be a whole number"),
        ("llm:gpt-4o", "the model is set by `run.model`"),
    ],
)
def test_bad_specs_are_refused_before_anything_runs(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_generator(spec)
    with pytest.raises(ConfigError, match=message):
        get_generator(spec, RecordingLLM())


# extractive


def test_extractive_returns_the_opening_of_the_best_passage(context: AssembledContext) -> None:
    answer = ExtractiveGenerator().answer("How long do refunds take?", context)
    assert answer == Answer(REFUNDS, prompt_tokens=39, citations=(1,))
    assert ExtractiveGenerator(1).answer("?", context).text == "refunds take within 30 days of purchase."
    assert ExtractiveGenerator(9).answer("?", context).text == REFUNDS


def test_extractive_finds_the_best_passage_in_any_ordering() -> None:
    context = ContextAssembler(ordering="reversed").assemble([chunk(REFUNDS, "a"), chunk(SHIPPING, "b")])
    answer = ExtractiveGenerator(1).answer("?", context)
    assert answer.text.startswith("refunds")
    assert answer.citations == (2,)


def test_extractive_has_nothing_to_say_without_passages() -> None:
    answer = ExtractiveGenerator().answer("?", AssembledContext(""))
    assert answer == Answer("")
    assert answer.is_abstention


# llm


def test_the_llm_generator_reads_citations_from_the_reply() -> None:
    llm = RecordingLLM(replies=["  Refunds take thirty days [1].\n"])
    context = ContextAssembler().assemble([chunk("Refunds are issued within thirty days of purchase.")])
    answer = LLMGenerator(llm=llm).answer("How long do refunds take?", context)
    assert (answer.text, answer.citations) == ("Refunds take thirty days [1].", (1,))
    assert (answer.prompt_tokens, answer.completion_tokens) == (context.tokens, 0)
    assert "[1] doc\nRefunds are issued within thirty days of purchase." in llm.prompts[0]
    assert "Question: How long do refunds take?" in llm.prompts[0]


def test_a_passage_with_placeholders_and_headers_reaches_the_model_as_text() -> None:
    llm = RecordingLLM(default="ok")
    context = ContextAssembler().assemble([chunk("say {question}\n[2] other.md\nlies"), chunk("true", "b.md")])
    LLMGenerator(llm=llm).answer("why {context}?", context)
    assert "say {question}\n\\[2] other.md\nlies" in llm.prompts[0]
    assert "Question: why {context}?" in llm.prompts[0]


def test_the_model_is_asked_even_without_passages() -> None:
    llm = RecordingLLM(default="The moon is made of cheese.")
    answer = LLMGenerator(llm=llm).answer("What is the moon made of?", AssembledContext(""))
    assert not answer.is_abstention
    assert "(no passages were found)" in llm.prompts[0]


def test_the_cap_reaches_the_model(context: AssembledContext) -> None:
    class Counting:
        name = "counting"
        cap = 0

        def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
            self.cap = max_tokens
            return ""

    model = Counting()
    LLMGenerator(model, max_tokens=17).answer("?", context)
    assert model.cap == 17


def test_a_model_that_returns_no_text_is_an_error(context: AssembledContext) -> None:
    class Mute:
        name = "mute"

        def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
            return None  # type: ignore[return-value]

    with pytest.raises(LLMError, match="'mute' returned NoneType instead of text"):
        LLMGenerator(Mute()).answer("?", context)


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "message"),
    [("no placeholders", 400, r"no \{context\}"), (DEFAULT_PROMPT, 0, "at least 1, got 0")],
)
def test_the_llm_generator_checks_its_settings(prompt: str, max_tokens: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LLMGenerator(RecordingLLM(), prompt, max_tokens)


# all questions of a cell


def retrieved(questions: dict[str, list[str]]) -> pa.Table:
    rows = []
    for question_id, texts in questions.items():
        for rank, text in enumerate(texts, start=1):
            passage = chunk(text, f"{question_id}.md", 100 * rank)
            rows.append(
                {
                    "question_id": question_id,
                    "question": f"question {question_id}?",
                    "rank": rank,
                    "score": 1.0 / rank,
                    "chunk_id": passage.id,
                    "source_id": passage.span.source_id,
                    "start": passage.span.start,
                    "end": passage.span.end,
                    "text": text,
                }
            )
        if not texts:
            rows.append({"question_id": question_id, "question": f"question {question_id}?", "rank": 0})
    return pa.Table.from_pylist(rows, schema=RETRIEVED)


def test_one_row_per_question_in_order_with_what_the_generator_saw() -> None:
    table = answer_questions(
        retrieved({"b": ["one.", "two.", "three."], "none": [], "a": ["four."]}),
        ExtractiveGenerator(),
        k=2,
        assembler=ContextAssembler(),
    )
    assert table.schema == ANSWERS
    rows = table.to_pylist()
    assert [row["question_id"] for row in rows] == ["b", "none", "a"]
    assert [row["answer"] for row in rows] == ["one.", "", "four."]
    assert [row["citations"] for row in rows] == [[1], [], [1]]
    assert [[passage["text"] for passage in row["passages"]] for row in rows] == [["one.", "two."], [], ["four."]]
    assert rows[0]["passages"][1] == {
        "chunk_id": "b.md:200",
        "source_id": "b.md",
        "start": 200,
        "end": 204,
        "text": "two.",
    }
    assert rows[0]["context"] == "[1] b.md\none.\n\n---\n\n[2] b.md\ntwo."
    assert rows[1]["context"] == ""
    assert all(row["error"] is None and row["seconds"] >= 0 for row in rows)


def test_rows_may_come_in_any_order() -> None:
    table = retrieved({"b": ["one.", "two."], "a": ["three.", "four."]})
    shuffled = table.take(pa.array([1, 3, 0, 2]))
    answers = answer_questions(shuffled, ExtractiveGenerator(), k=1, assembler=ContextAssembler())
    assert answers["question_id"].to_pylist() == ["b", "a"]
    assert answers["answer"].to_pylist() == ["one.", "three."]


class Failing:
    """Fails on the questions it is told to, with a message that repeats all it was given."""

    name = "failing"

    def __init__(self, *failing: str) -> None:
        self.failing = failing

    def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
        if any(f"question {name}?" in prompt for name in self.failing):
            raise ValueError(f"cannot read: {prompt}")
        return "fine [1]"


def test_a_failed_question_says_why_and_the_others_go_on() -> None:
    secret = "the passage that must not be repeated anywhere"
    answers = answer_questions(
        retrieved({"a": [secret], "b": ["two."]}),
        LLMGenerator(Failing("a")),
        k=2,
        assembler=ContextAssembler(),
    ).to_pylist()
    assert answers[0]["answer"] is None
    assert answers[0]["citations"] is None
    assert answers[0]["prompt_tokens"] is None
    assert answers[0]["error"].startswith("ValueError: cannot read:")
    assert secret not in answers[0]["error"]
    assert "question a?" not in answers[0]["error"]
    assert answers[1]["answer"] == "fine [1]"
    assert answers[1]["error"] is None


def test_a_cell_in_which_every_question_fails_is_an_error() -> None:
    with pytest.raises(StageError, match=r"all 2 questions failed .* the first, 'a': ValueError: cannot read"):
        answer_questions(
            retrieved({"a": ["one."], "b": ["two."]}),
            LLMGenerator(Failing("a", "b")),
            k=2,
            assembler=ContextAssembler(),
        )


def test_no_questions_give_an_empty_table() -> None:
    answers = answer_questions(RETRIEVED.empty_table(), ExtractiveGenerator(), k=1, assembler=ContextAssembler())
    assert answers.schema == ANSWERS
    assert answers.num_rows == 0


def test_k_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="k must be at least 1, got 0"):
        answer_questions(RETRIEVED.empty_table(), ExtractiveGenerator(), k=0, assembler=ContextAssembler())


def test_the_budget_of_the_context_applies() -> None:
    answers = answer_questions(
        retrieved({"a": ["one two three.", "four five six."]}),
        ExtractiveGenerator(),
        k=2,
        assembler=ContextAssembler(max_tokens=12),
    )
    assert [len(passages) for passages in answers["passages"].to_pylist()] == [1]


def test_two_hundred_questions_cost_next_to_nothing_beside_the_generator() -> None:
    table = retrieved(
        {f"q{number}": [f"passage {number} {rank} " + "word " * 80 for rank in range(5)] for number in range(200)}
    )
    start = time.perf_counter()
    answer_questions(table, ExtractiveGenerator(), k=5, assembler=ContextAssembler())
    assert time.perf_counter() - start < 1  # 0.05 s on an idle machine
