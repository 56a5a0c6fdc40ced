"""Building partitions in other processes, on this machine or on others, under a Dask scheduler."""
