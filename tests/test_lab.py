"""The library alone: a grid over a corpus, shared prefixes, failures, and the command that runs it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import contextgrid as cg
from contextgrid import stages
from contextgrid.core.documents import MediaType, Source
from contextgrid.core.errors import CorpusError, StageError

DOCUMENTS = {
    "refunds.md": "# Refunds\n\nRefunds are paid within thirty days of purchase.\n\nDigital goods are never refunded.",
    "shipping.md": "# Shipping\n\nExpress parcels arrive on the next working day.\n\nStandard parcels take five days.",
    "warranty.md": "# Warranty\n\nThe warranty for engines lasts twenty-four months.\n\nTyres carry no warranty.",
}
EVALSET = cg.EvalSet(
    "es",
    (
        cg.EvalItem(
            "q1",
            "How long do refunds take?",
            (cg.GoldAnchor("refunds.md", "thirty days of purchase"),),
            answer="Refunds take thirty days.",
        ),
        cg.EvalItem("q2", "When do express parcels arrive?", (cg.GoldAnchor("shipping.md", "next working day"),)),
        cg.EvalItem(
            "q3", "How long is the warranty for engines?", (cg.GoldAnchor("warranty.md", "twenty-four months"),)
        ),
        cg.EvalItem("q4", "Who chairs the board?", answerable=False),
    ),
)


@pytest.fixture
def lab() -> cg.Lab:
    return cg.Lab(cg.Corpus.from_texts(DOCUMENTS)).grid(
        parser="markdown",
        chunker=["recursive:60", "recursive:200"],
        embedder="tfidf",
        index=["bm25", "dense"],
        reranker=[None, "lexical"],
        generator=["extractive", "llm"],
        model="offline:reader",
    )


def test_every_cell_has_a_result_and_a_lift_report_and_the_leaderboard_is_sorted(lab: cg.Lab) -> None:
    results = lab.run(EVALSET)
    assert len(results) == results.leaderboard.num_rows == 16
    assert len(results.lifts) == 16
    scores = results.leaderboard["answer_score"].to_pylist()
    assert scores == sorted(scores, reverse=True)
    assert results.best.metrics["answer_quality"] == pytest.approx(scores[0])
    assert results.leaderboard["rank"].to_pylist() == list(range(1, 17))
    baseline = lab.matrix.baseline.key
    for key, report in results.lifts.items():
        assert report.baseline == f"{key.partition('|')[0]}|{baseline}"


def test_every_common_prefix_is_built_once(lab: cg.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()
    for name in ("parse_corpus", "chunk_documents", "build_index", "retrieve", "score_retrieval", "answer"):
        original = getattr(stages, name)

        def counted(*args: object, _name: str = name, _original: object = original, **kwargs: object) -> object:
            calls[_name] += 1
            return _original(*args, **kwargs)  # type: ignore[operator]

        monkeypatch.setattr(stages, name, counted)
    lab.run(EVALSET)
    assert calls == {
        "parse_corpus": 1,
        "chunk_documents": 2,
        "build_index": 4,
        "retrieve": 8,
        "score_retrieval": 8,
        "answer": 16,
    }


def test_means_are_over_what_could_be_measured_and_say_so(lab: cg.Lab) -> None:
    result = lab.run(EVALSET).best
    recall = result.coverage["recall@5"]
    assert (recall.n, recall.total) == (3, 4)
    assert all(value == value for value in result.metrics.values())


def test_a_grid_without_a_generator_ranks_by_retrieval(lab: cg.Lab) -> None:
    results = lab.grid(generator=None).run(EVALSET)
    assert len(results) == 8
    assert results.lifts == {}
    assert results.leaderboard["generation"].null_count == 8
    assert results.best.answers is None


def test_a_cell_whose_every_call_fails_does_not_stop_the_others(lab: cg.Lab) -> None:
    class Refusing:
        name = "refusing"

        def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
            raise RuntimeError("the server is down")

    failing = cg.Lab(lab.corpus, llm=Refusing(), axes=lab.axes)
    results = failing.run(EVALSET)
    assert len(results) == 8
    assert len(results.failed) == 8
    assert all("the server is down" in reason for reason in results.failed.values())
    with pytest.raises(StageError, match="the server is down"):
        failing.grid(generator="llm").run(EVALSET)


def test_a_row_that_cannot_be_built_costs_only_its_own_cells(lab: cg.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextgrid.embed.tfidf import Tfidf

    def broken(self: object, passages: object) -> None:
        raise TypeError("no such weight")

    monkeypatch.setattr(Tfidf, "fit", broken)
    results = lab.run(EVALSET)
    assert (len(results), len(results.failed)) == (8, 8)
    assert set(results.failed.values()) == {"TypeError: no such weight"}
    with pytest.raises(TypeError, match="no such weight"):
        lab.grid(index="dense").run(EVALSET)


def test_input_that_no_cell_can_use_is_raised_as_it_is(lab: cg.Lab) -> None:
    unreadable = Source("a.md", MediaType.MARKDOWN, b"\xff\xfe\xfa")
    with pytest.raises(CorpusError, match=r"a\.md"):
        cg.Lab(cg.Corpus((unreadable,)), axes=lab.axes).run(EVALSET)
    punctuation = cg.Corpus.from_texts({"a.md": "... !!! ..."})
    with pytest.raises(StageError, match="all 16 cells failed; the first: bm25: the passages hold no words"):
        cg.Lab(punctuation, axes=lab.axes).run(EVALSET)


def test_cells_whose_baseline_failed_are_named_or_refused(lab: cg.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextgrid.index.bm25 import BM25

    def broken(self: object, passages: object, embedder: object = None) -> None:
        raise CorpusError("nothing to search for")

    monkeypatch.setattr(BM25, "build", broken)
    with pytest.raises(StageError, match=r"no cell can be compared.*nothing to search for.*run\.baseline"):
        lab.run(EVALSET)


def test_what_could_not_be_read_or_found_is_a_warning_with_counts(lab: cg.Lab) -> None:
    texts = {name: text for name, text in DOCUMENTS.items() if name != "warranty.md"}
    sources = (*cg.Corpus.from_texts(texts), Source("broken.md", MediaType.MARKDOWN, b"\xff\xfe\xfa"))
    results = cg.Lab(cg.Corpus(sources)).grid(parser=["auto", "text"], index="bm25").run(EVALSET)
    assert results.warnings == [
        "parser auto: 1 document could not be read; see contextgrid check",
        "parser auto: 1 piece of evidence was not found and left out of the scores; see contextgrid check",
        "parser text: 1 document could not be read; see contextgrid check",
        "parser text: 1 piece of evidence was not found and left out of the scores; see contextgrid check",
    ]
    assert lab.run(EVALSET).warnings == []


def test_no_more_ranks_are_kept_than_there_are_passages(lab: cg.Lab) -> None:
    deep = cg.Lab(lab.corpus, settings=cg.RunSettings(k=10_000)).grid(index=["bm25", "dense"], reranker="lexical")
    shallow = cg.Lab(lab.corpus, settings=cg.RunSettings(k=10)).grid(index=["bm25", "dense"], reranker="lexical")
    assert deep.run(EVALSET).leaderboard == shallow.run(EVALSET).leaderboard


def test_unknown_axes_and_values_are_refused(lab: cg.Lab) -> None:
    with pytest.raises(cg.ContextGridError, match="did you mean 'chunker'"):
        lab.grid(chunkr="recursive:100")
    with pytest.raises(cg.ContextGridError, match="did you mean 'lexical'"):
        lab.grid(reranker="lexica")


def test_ranks_stay_full_where_a_reranker_reads_fewer_candidates(lab: cg.Lab) -> None:
    corpus = cg.Corpus.from_texts({f"{number}.md": f"refunds and parcel {number}" for number in range(20)})
    narrow = cg.Lab(corpus).grid(index="bm25", reranker=["lexical"], candidates=[5, 20])
    for result in narrow.run(EVALSET):
        assert result.config.candidates in (5, 20)
        assert result.coverage["recall@5"].total == 4


@pytest.fixture
def experiment_file(tmp_path: Path) -> Path:
    documents = tmp_path / "docs"
    documents.mkdir()
    for name, text in DOCUMENTS.items():
        (documents / name).write_text(text, encoding="utf-8")
    lines = [
        {
            "id": "q1",
            "question": "How long do refunds take?",
            "anchors": [{"source_id": "refunds.md", "quote": "thirty days"}],
        },
        {"id": "q2", "question": "Who chairs the board?", "anchors": [], "answerable": False},
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    file = tmp_path / "experiment.yaml"
    file.write_text(
        "name: demo\ncorpus: docs\nevalset: q.jsonl\n"
        "grid:\n  index: [bm25, dense]\n  generator: [extractive, llm]\n  model: offline:reader\n",
        encoding="utf-8",
    )
    return file


def test_a_lab_from_an_experiment_file_runs_the_same_grid(experiment_file: Path) -> None:
    experiment = cg.Experiment.load(experiment_file)
    lab = cg.Lab.from_experiment(experiment)
    assert lab.matrix == experiment.matrix
    assert len(lab.run(experiment.load_evalset())) == 4
