"""Names of what a materialisation notes in its metadata and the planner reads back."""

from __future__ import annotations

EXPERIMENT = "experiment"
SETTINGS = "settings"
FAILED_QUESTIONS = "failed_questions"
FAILED_VERDICTS = "failed_verdicts"
LOST_METRICS = "lost_metrics"
SKIPPED_QUESTIONS = "skipped_questions"
INPUT_VERSIONS = "inputs/"
