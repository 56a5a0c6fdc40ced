"""What has to hold of a partition of the grid: thresholds, measurements, and verdicts in words.

A verdict follows from stored tables and thresholds alone, so whoever asks, and whenever, gets the same one.
"""

from contextgrid.checks.settings import CheckSettings

__all__ = ["CheckSettings"]
