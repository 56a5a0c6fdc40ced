"""The verdicts of all checks on what is stored, for a terminal and for CI."""
