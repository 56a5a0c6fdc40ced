"""What Dagster shows of the assets: descriptions, labels, metadata, charts and pages, lines of run logs."""
