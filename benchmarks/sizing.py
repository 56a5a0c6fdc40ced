"""What an index needs: seconds of CPU, memory and bytes, by number of passages. Figures of docs/scale-out.md.

python -m benchmarks.sizing
python -m benchmarks.sizing 100000
"""

from __future__ import annotations

import multiprocessing
import random
import resource
import sys
import time

import pyarrow as pa

from contextgrid import stages
from contextgrid.core.tables import CHUNKS, EVALSET
from contextgrid.grid.matrix import build_matrix
from contextgrid.index import PassageIndex
from contextgrid.settings import RunSettings

PASSAGES, WORDS, QUESTIONS = (10_000, 100_000), 60, 200
VARIANTS = ((None, "bm25"), ("tfidf", "dense"), ("wordllama", "dense"), ("wordllama", "hybrid"))


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]] or PASSAGES
    print(f"passages of {WORDS} words; {QUESTIONS} questions; one process for each line")
    print("passages  embedder   index   build CPU s  search CPU s  peak MB  stored MB")
    context = multiprocessing.get_context("spawn")
    for size in sizes:
        for embedder, index in VARIANTS:
            with context.Pool(1) as pool:
                build, search, peak, stored = pool.apply(measure, (size, embedder, index))
            print(f"{size:8d}  {embedder or '-':9s}  {index:6s}{build:13.1f}{search:14.1f}{peak:9.0f}{stored:11.0f}")


def measure(size: int, embedder: str | None, index: str) -> tuple[float, float, float, float]:
    """CPU seconds to build and to search, the most memory that the process held, and the size of the file (MB)."""
    chunks, questions = passages(size), evalset(QUESTIONS)
    run = RunSettings()
    row = build_matrix(
        {
            "parser": ("markdown",),
            "chunker": ("recursive:500",),
            "embedder": (embedder,),
            "index": (index,),
            "transform": (None,),
            "reranker": (None,),
            "candidates": (None,),
            "generator": (None,),
            "prompt": (None,),
            "model": (None,),
        }
    ).rows[0]
    begin = time.process_time()
    content = stages.build_index(chunks, embedder, index, run).to_bytes()
    built = time.process_time()
    stages.retrieve(PassageIndex.from_bytes(content), questions, row, run)
    searched = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return built - begin, searched - built, peak, len(content) / 1e6


def passages(number: int) -> pa.Table:
    """Passages of random words, drawn as words of a language are: few are frequent."""
    draw = random.Random(0)
    vocabulary = ["".join(draw.choices("abcdefghijklmnoprstuvw", k=draw.randint(3, 10))) for _ in range(30_000)]
    weights = [1 / rank for rank in range(1, len(vocabulary) + 1)]
    texts = [" ".join(draw.choices(vocabulary, weights, k=WORDS)) for _ in range(number)]
    rows = [
        {"chunk_id": f"{i}", "source_id": f"{i // 10}.md", "start": 0, "end": len(text), "text": text}
        for i, text in enumerate(texts)
    ]
    return pa.Table.from_pylist(rows, schema=CHUNKS)


def evalset(number: int) -> pa.Table:
    """Questions that are passages' beginnings."""
    texts = passages(number)["text"].to_pylist()
    rows = [{"question_id": f"q{i}", "question": text[:60], "anchors": []} for i, text in enumerate(texts)]
    return pa.Table.from_pylist(rows, schema=EVALSET)


if __name__ == "__main__":
    main()
