"""Servers for the tests of remote objects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.stores import S3Server, s3_server
from tests.support.web import WebServer, web_server
from torchrec_io.storage.remote.process import close_connections


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """Return an S3 server with a bucket, for all tests."""
    with s3_server() as server:
        yield server


@pytest.fixture
def web() -> Iterator[WebServer]:
    """Return an HTTP server without files."""
    with web_server() as server:
        yield server


@pytest.fixture(autouse=True, scope="session")
def _end_helpers() -> Iterator[None]:
    yield
    close_connections()
