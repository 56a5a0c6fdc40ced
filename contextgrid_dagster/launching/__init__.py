"""How launched runs start and end: as forks of a warm process, looked at often."""
