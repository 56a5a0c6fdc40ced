"""Finding workers, on this machine or on others, and making sure that they can do the work.

The unit of work is one partition in one run, as in a single process; Dask only says where. Everything that is
common stays in this process: the plan, early cutoff, the report, the inputs (which read local files), and what calls a
paid model or service, because budget, limits per provider and shared replies hold within one process.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from dagster import DagsterInstance

from contextgrid.core.errors import ConfigError
from contextgrid_dagster.graph import GridGraph
from contextgrid_dagster.workers.pool import JOIN_SECONDS, Pool
from contextgrid_dagster.workers.worker import Site, problem_here, records_of, software

if TYPE_CHECKING:
    from distributed import Client

_ADDRESS = re.compile(r"(?:tcp|tls|ws|wss)://[^\s/]+:\d+/?")
_CONNECT_SECONDS, _MOST_WORKERS = 10, 256


@contextmanager
def open_pool(graph: GridGraph, instance: DagsterInstance, workers: str) -> Iterator[Pool]:
    """Workers that are ready to build the partitions of a graph.

    Args:
        workers: address of a Dask scheduler (``tcp://host:8786``), or a number of processes to start on this machine.

    Raises:
        ConfigError: if there is no scheduler, no worker joins, or one of them cannot do the work: it has other
            versions, or sees another store or another Dagster instance.
    """
    try:
        import distributed
    except ImportError:
        raise ConfigError("workers need Dask: pip install 'contextgrid-dagster[dask]'") from None
    if instance.is_ephemeral:
        raise ConfigError("workers need a Dagster instance that is kept in a database, not in memory")
    number = int(workers) if workers.strip().isdecimal() else None
    if number is not None and number > _MOST_WORKERS:
        raise ConfigError(f"workers {workers}: at most {_MOST_WORKERS} processes are started on this machine")
    if number == 0 or (number is None and not _ADDRESS.fullmatch(workers.strip())):
        raise ConfigError(
            f"workers {workers!r}: give the address of a Dask scheduler, as in tcp://host:8786, or the number of"
            " processes to start on this machine"
        )
    pool: Pool | None = None
    try:
        with _cluster(number) if number else _no_cluster(workers.strip()) as address, ExitStack() as stack:
            client = stack.enter_context(_client(distributed, address))
            site = stack.enter_context(_site(graph, instance))
            _refuse_unfit(client, address, site)
            pool = Pool(graph, instance, site, client, address)
            stack.callback(pool.withdraw)
            yield pool
    finally:
        if number and pool is not None:
            pool.write_off("interrupted")  # its process was stopped with the others of this machine


@contextmanager
def _cluster(number: int) -> Iterator[str]:
    """Worker processes of this machine, under a scheduler that only this machine reaches."""
    import dask
    from distributed import LocalCluster

    # The profile of what workers do costs a fifth of their time: the calls inside a run are deep.
    quick = dask.config.set({"distributed.worker.profile.enabled": False})
    with quick, ExitStack() as stack:
        try:
            cluster = stack.enter_context(
                LocalCluster(
                    n_workers=number,
                    threads_per_worker=1,
                    # Dask would serve its state to the whole network.
                    dashboard_address="127.0.0.1:0",
                    worker_dashboard_address="127.0.0.1:0",
                    # A worker that Dask stops for its memory is started again for the same work; the machine decides.
                    memory_limit=0,
                    silence_logs=logging.CRITICAL,
                    # Ctrl-C in a terminal reaches every process; they are stopped by this one.
                    preload="import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)",
                )
            )
        except (OSError, RuntimeError) as error:
            raise ConfigError(
                f"{number} worker processes could not be started: {error}; try again with fewer"
            ) from None
        yield cluster.scheduler_address


@contextmanager
def _no_cluster(address: str) -> Iterator[str]:
    yield address


@contextmanager
def _client(distributed: Any, address: str) -> Iterator[Client]:
    try:
        client = distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"no Dask scheduler answers at {address} ({type(error).__name__}); start one with: dask scheduler"
        ) from None
    except TypeError:  # Dask's answer to an encrypted address where it has no certificates
        raise ConfigError(
            f"{address} needs TLS, for which Dask has no certificates here; name them in its configuration,"
            " distributed.comm.tls: https://distributed.dask.org/en/stable/tls.html"
        ) from None
    with client:
        yield client


@contextmanager
def _site(graph: GridGraph, instance: DagsterInstance) -> Iterator[Site]:
    token = uuid.uuid4().hex
    marker = graph.tables.folder / f".{token}.workers"
    graph.tables.make_directory(marker.parent)
    graph.tables.write(marker, b"")
    try:
        yield Site(
            token=token,
            experiment=graph.experiment,
            storage=graph.storage,
            marker=marker.path,
            key_prefix=graph.declaration.key_prefix,
            instance=instance.get_ref(),
            home=instance.root_directory,
            records=records_of(instance),
            software=software(),
        )
    finally:
        graph.tables.fs.rm_file(marker.path)


def _refuse_unfit(client: Client, address: str, site: Site) -> None:
    try:
        client.wait_for_workers(1, timeout=JOIN_SECONDS)
    except TimeoutError:
        raise ConfigError(
            f"no worker joined the scheduler at {address} within {JOIN_SECONDS} s; start some with:"
            f" dask worker {address} --nthreads 1"
        ) from None
    workers = list(client.scheduler_info()["workers"])
    asked = {
        worker: client.submit(problem_here, site, workers=[worker], key=f"ready-{uuid.uuid4()}", pure=False)
        for worker in workers
    }
    for worker, future in asked.items():
        error = future.exception()
        problem = f"cannot work: {type(error).__name__}: {error}" if error is not None else future.result()
        if problem is not None:
            raise ConfigError(f"worker {worker} {problem}")
