"""A 12-row grid over 1,000 synthetic documents and 200 questions, in memory and as Dagster assets.

Run with ``python -m benchmarks.grid [library|assets|both]``. Prints seconds of wall time and the seconds per
cell; the library and the assets start from nothing each time, imports excluded and named apart.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from pathlib import Path

DOCUMENTS, QUESTIONS, WORDS = 1_000, 200, 120
EXPERIMENT = """\
name: benchmark
corpus: documents
evalset: questions.jsonl
grid:
  parser: text
  chunker: ["recursive:256", "recursive:512"]
  embedder: tfidf
  index: [dense, bm25, hybrid]
  reranker: [null, lexical]
  generator: extractive
"""


def write_inputs(folder: Path, seed: int = 7) -> Path:
    """Documents of Zipf-distributed pseudo-words, and questions that quote five consecutive words of one."""
    random.seed(seed)
    vocabulary = [
        "".join(random.choices("bcdfghklmnprstvw", k=2)) + random.choice("aeiou") + str(i) for i in range(8_000)
    ]
    weights = [1 / (rank + 10) for rank in range(len(vocabulary))]
    documents = folder / "documents"
    documents.mkdir(parents=True)
    lines = []
    for number in range(DOCUMENTS):
        words = random.choices(vocabulary, weights, k=WORDS)
        sentences = [" ".join(words[start : start + 12]).capitalize() + "." for start in range(0, WORDS, 12)]
        text = " ".join(sentences)
        (documents / f"d{number:04}.txt").write_text(text, encoding="utf-8")
        if number < QUESTIONS:
            sentence = sentences[random.randrange(len(sentences))]
            question = " ".join(random.sample(sentence.rstrip(".").split(), 6)) + "?"
            anchor = {"source_id": f"d{number:04}.txt", "quote": sentence}
            lines.append(json.dumps({"id": f"q{number:03}", "question": question, "anchors": [anchor]}))
    (folder / "questions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    file = folder / "experiment.yaml"
    file.write_text(EXPERIMENT, encoding="utf-8")
    return file


def time_library(file: Path) -> tuple[float, int]:
    """Seconds and cells of ``contextgrid run``'s work."""
    from contextgrid import Experiment, Lab

    started = time.perf_counter()
    experiment = Experiment.load(file)
    results = Lab.from_experiment(experiment).run(experiment.load_evalset())
    return time.perf_counter() - started, len(results)


def time_assets(file: Path) -> tuple[float, int]:
    """Seconds and materialisations of ``contextgrid-dagster materialize`` into an empty instance."""
    from contextgrid import Experiment
    from contextgrid_dagster.executor import execute
    from contextgrid_dagster.graph import GridGraph
    from contextgrid_dagster.instance import home_of, open_instance
    from contextgrid_dagster.planner import plan

    started = time.perf_counter()
    graph = GridGraph(Experiment.load(file))
    with open_instance(home_of(graph.experiment)) as instance:
        report = execute(plan(graph, instance), instance)
    assert report.success
    return time.perf_counter() - started, len(report.outcomes)


def main() -> None:
    """Print the figures asked for."""
    asked = sys.argv[1] if len(sys.argv) > 1 else "both"
    with tempfile.TemporaryDirectory() as folder:
        file = write_inputs(Path(folder) / "inputs")
        if asked in ("library", "both"):
            seconds, cells = time_library(file)
            print(f"library  {seconds:6.2f} s  {seconds / cells:6.3f} s per cell  {cells} cells")
        if asked in ("assets", "both"):
            seconds, built = time_assets(file)
            print(f"assets   {seconds:6.2f} s  {seconds / built:6.3f} s per materialisation  {built} materialisations")


if __name__ == "__main__":
    main()
