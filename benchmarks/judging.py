"""40 answers, DeepEval's two default metrics, a model that takes 50 ms per call, 16 calls side by side.

Run with ``python -m benchmarks.judging``. Prints seconds of wall time side by side and one after the other, whether
the scores are equal, and what DeepEval itself costs per metric. The limit is 40 answers x 7 calls x 50 ms / 16 = 0.9 s.
DeepEval's import is excluded and named apart.
"""

from __future__ import annotations

import hashlib
import json
import time

import pyarrow as pa

from contextgrid.core.tables import ANSWERS, EVALSET, VOLATILE
from contextgrid.generate.judge import deepeval_problem
from contextgrid.generate.judging import judge_answers

ANSWERS_JUDGED, SECONDS, CONCURRENCY = 40, 0.05, 16


class Model:
    """A judge on the other side of a network: verdicts follow from the prompt alone."""

    name = "benchmark"
    in_order = False

    def __init__(self, seconds: float, concurrency: int) -> None:
        self.seconds, self.concurrency = seconds, concurrency

    def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
        time.sleep(self.seconds)
        number = hashlib.blake2b(prompt.encode(), digest_size=1).digest()[0]
        verdicts = [{"verdict": "no" if number >> bit & 1 else "yes", "reason": "so"} for bit in range(4)]
        listed = [f"Point {bit}." for bit in range(4)]
        reply = {"truths": listed, "claims": listed, "statements": [*listed, prompt[-40:]], "verdicts": verdicts}
        return json.dumps({**reply, "claims": [*listed, prompt[-40:]], "reason": "because"})


def tables() -> tuple[pa.Table, pa.Table]:
    """Different answers from five passages each, and their questions."""
    passages = [
        {"chunk_id": f"c{n}", "source_id": "d", "start": 0, "end": 500, "text": f"Passage {n} says much. " * 20}
        for n in range(5)
    ]
    rows = [
        {
            "question_id": f"q{n:02}",
            "question": f"What is asked in question {n}?",
            "answer": f"Answer {n} claims this and that [1].",
            "passages": [{**passage, "text": f"{passage['text']} About {n}."} for passage in passages],
            "status": "answered",
        }
        for n in range(ANSWERS_JUDGED)
    ]
    questions = [{"question_id": row["question_id"], "question": row["question"]} for row in rows]
    return pa.Table.from_pylist(rows, schema=ANSWERS), pa.Table.from_pylist(questions, schema=EVALSET)


def timed(answers: pa.Table, evalset: pa.Table, model: Model) -> tuple[float, pa.Table]:
    """Wall seconds, and the scores."""
    start = time.perf_counter()
    scores = judge_answers(answers, evalset, model)
    return time.perf_counter() - start, scores.drop_columns([name for name in scores.column_names if name in VOLATILE])


def main() -> None:
    """Print the measurements."""
    start = time.perf_counter()
    if deepeval_problem() is not None:
        raise SystemExit(deepeval_problem())
    print(f"import of DeepEval: {time.perf_counter() - start:.2f} s")
    answers, evalset = tables()
    timed(answers, evalset, Model(0.0, 1))  # compiles DeepEval's templates
    own, _ = timed(answers, evalset, Model(0.0, 1))
    print(f"DeepEval itself: {own / (2 * ANSWERS_JUDGED) * 1000:.2f} ms per metric")
    beside, scores = timed(answers, evalset, Model(SECONDS, CONCURRENCY))
    calls = sum(scores["calls"].to_pylist())
    print(f"side by side: {beside:.2f} s for {calls} calls (limit {calls * SECONDS / CONCURRENCY:.2f} s)")
    serial, expected = timed(answers, evalset, Model(SECONDS, 1))
    print(f"one after the other: {serial:.2f} s; scores {'equal' if scores.equals(expected) else 'DIFFER'}")


if __name__ == "__main__":
    main()
