"""Answering and judging once more on a schedule, and reporting what drifted."""
