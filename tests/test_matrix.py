"""The grid: rows, columns, keys, what is dropped and what collapses."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextgrid.core.axes import Generation, Retrieval, encode, values_of
from contextgrid.core.errors import ConfigError
from contextgrid.grid.matrix import AxisValue, build_matrix

AXES: dict[str, list[AxisValue]] = {
    "parser": ["auto"],
    "chunker": ["recursive:256", "recursive:512"],
    "embedder": ["tfidf"],
    "index": ["bm25", "dense"],
    "reranker": [None, "lexical"],
}


def test_factorial_combines_every_value_and_keys_list_every_axis_in_use() -> None:
    matrix = build_matrix(AXES)
    assert len(matrix.rows) == 8
    assert "auto__recursive-256__bm25" in [row.key for row in matrix.rows]
    assert "auto__recursive-512__tfidf__dense__lexical" in [row.key for row in matrix.rows]


def test_ofat_varies_one_axis_at_a_time_around_the_baseline() -> None:
    matrix = build_matrix(AXES, mode="ofat")
    assert [row.key for row in matrix.rows] == [
        "auto__recursive-256__bm25",
        "auto__recursive-512__bm25",
        "auto__recursive-256__tfidf__dense",
        "auto__recursive-256__bm25__lexical",
    ]


def test_an_embedder_under_bm25_and_a_prompt_under_extractive_collapse() -> None:
    axes: dict[str, list[AxisValue]] = {
        **AXES,
        "chunker": ["recursive:256"],
        "embedder": ["tfidf", "wordllama"],
        "reranker": [None],
        "generator": ["extractive"],
        "prompt": ["short", "long"],
    }
    matrix = build_matrix(axes)
    assert [row.key for row in matrix.rows] == [
        "auto__recursive-256__bm25",
        "auto__recursive-256__tfidf__dense",
        "auto__recursive-256__wordllama__dense",
    ]
    assert [column.key for column in matrix.columns] == ["extractive"]
    assert matrix.collapsed == 2


@pytest.mark.parametrize("mode", ["factorial", "ofat"])
def test_values_that_differ_only_in_spelling_collapse_into_the_first(mode: str) -> None:
    axes: dict[str, list[AxisValue]] = {
        **AXES,
        "chunker": [" recursive:100", "recursive:0100", "recursive: 100", "recursive:100,overlap=0", "recursive:200"],
        "index": ["bm25"],
        "reranker": [None],
        "generator": ["extractive", "extractive:2", "llm:max_tokens=200", "llm:max_tokens=0200"],
        "model": ["offline:reader", "offline:reader,threshold=0.40"],
    }
    matrix = build_matrix(axes, mode=mode, baseline={"chunker": "recursive:0200"}, model="offline:reader")
    assert {row.key for row in matrix.rows} == {"auto__recursive-100__bm25", "auto__recursive-200__bm25"}
    assert matrix.baseline.chunker == "recursive:200"
    assert [column.generator for column in matrix.columns] == ["extractive", "llm:max_tokens=200"]
    # 3 rows, and of the columns 6 of 8, or 3 of 5 where one axis varies at a time.
    assert matrix.collapsed == (9 if mode == "factorial" else 6)


def test_a_dense_index_without_an_embedder_is_dropped_and_counted() -> None:
    matrix = build_matrix({**AXES, "embedder": [None]})
    assert {row.index for row in matrix.rows} == {"bm25"}
    assert matrix.dropped == {"index 'dense' needs an embedder": 4}


def test_a_null_generator_gives_no_column_and_a_missing_model_is_refused() -> None:
    assert build_matrix({**AXES, "generator": [None]}).columns == ()
    with pytest.raises(ConfigError, match="needs a model"):
        build_matrix({**AXES, "generator": ["llm"]})
    assert build_matrix({**AXES, "generator": ["llm"]}, model="offline:reader").columns[0].model == "offline:reader"


def test_the_baseline_is_the_first_value_of_each_axis_unless_named() -> None:
    assert build_matrix(AXES).baseline.key == "auto__recursive-256__bm25"
    assert build_matrix(AXES, baseline={"index": "dense"}).baseline.key == "auto__recursive-256__tfidf__dense"
    with pytest.raises(ConfigError, match="is not on the grid"):
        build_matrix(AXES, baseline={"index": "hybrid"})


SPEC = st.from_regex(
    r"[a-z][a-z0-9_]{0,5}(:[A-Za-z0-9./-]{1,6}(,[a-z]{1,4}=[A-Za-z0-9._/:-]{1,6}){0,2})?", fullmatch=True
)


@given(SPEC)
def test_a_partition_key_uses_only_characters_that_are_safe_in_keys_and_paths(spec: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", encode(spec))


@given(SPEC, SPEC)
def test_different_specs_have_different_keys(one: str, other: str) -> None:
    if one != other:
        assert encode(one) != encode(other)


def test_a_key_is_readable_and_stable() -> None:
    row = Retrieval("auto", "recursive:512,overlap=64", "tfidf", "hybrid", None, "lexical", 40)
    assert row.key == "auto__recursive-512.overlap_64__tfidf__hybrid__lexical__c40"
    assert row.chunks_key == "auto__recursive-512.overlap_64"


@given(st.text(min_size=1).filter(lambda text: text.isprintable() and "," not in text and max(text) < "\U00100000"))
def test_keys_are_shown_with_what_was_escaped_in_them(text: str) -> None:
    key = Generation("llm", "short", f"openai:any,path={text}").key
    assert values_of(key) == ["llm", "short", f"openai-any.path_{text}"]
