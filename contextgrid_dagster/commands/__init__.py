"""What the ``contextgrid-dagster`` command can do, one file for each kind of work."""
