"""Services that tests start themselves or find: an S3 server on loopback, databases of the PostgreSQL server of CI."""

from __future__ import annotations

import os
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

__all__ = ["SECRET", "Bucket", "bucket", "database", "new_database", "s3_server"]

SECRET = "secret-canary-of-s3"


@dataclass
class Bucket:
    """A bucket of an S3 server on loopback.

    Attributes:
        url: of the bucket, as ``s3://name``.
        environment: variables under which any S3 client reaches it.
        requests: how many requests arrived, by method.
    """

    url: str
    environment: dict[str, str]
    requests: Counter[str] = field(default_factory=Counter)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[tuple[str, Counter[str]]]:
    """The address of an S3 server, and its count of requests."""
    server = pytest.importorskip("moto.server", reason="an S3 server needs moto: pip install 'moto[server]'")
    from werkzeug.serving import make_server

    requests: Counter[str] = Counter()
    application = server.DomainDispatcherApplication(server.create_backend_app)

    def counting(environ: dict[str, Any], start: Any) -> Any:
        requests[environ["REQUEST_METHOD"]] += 1
        return application(environ, start)

    listening = make_server("127.0.0.1", 0, counting, threaded=True, request_handler=_quiet())
    thread = threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.port}", requests
    listening.shutdown()
    thread.join()


def _quiet() -> Any:
    from werkzeug.serving import WSGIRequestHandler

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_: Any) -> None:
            pass

    return Handler


@pytest.fixture
def bucket(s3_server: tuple[str, Counter[str]], monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An empty bucket that this process reaches."""
    import boto3
    from s3fs import S3FileSystem

    S3FileSystem.clear_instance_cache()  # it would keep the connection to the server of other tests

    url, requests = s3_server
    environment = {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    name = f"team-{uuid.uuid4().hex}"
    boto3.client("s3", endpoint_url=url).create_bucket(Bucket=name)
    requests.clear()
    yield Bucket(f"s3://{name}", environment, requests)
    S3FileSystem.clear_instance_cache()


def postgresql_server() -> str:
    """The URL that CONTEXTGRID_TEST_POSTGRESQL names, of a database on which a test may make its own."""
    url = os.environ.get("CONTEXTGRID_TEST_POSTGRESQL")
    if url is None:
        pytest.skip("set CONTEXTGRID_TEST_POSTGRESQL to the URL of a database")
    return url


@contextmanager
def new_database() -> Iterator[str]:
    """A new database of the PostgreSQL server that CONTEXTGRID_TEST_POSTGRESQL names; gives its URL without driver."""
    import sqlalchemy

    url = postgresql_server()
    name = f"test_{uuid.uuid4().hex}"
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f"CREATE DATABASE {name}"))
    address = sqlalchemy.make_url(url).set(drivername="postgresql", database=name)
    yield address.render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture
def database() -> Iterator[str]:
    """The URL of an empty PostgreSQL database, ``postgresql://…``."""
    with new_database() as url:
        yield url
