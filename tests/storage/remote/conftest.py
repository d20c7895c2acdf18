"""Servers for the tests of remote objects."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.proxy import Proxy, proxy_to
from tests.support.stores import S3Server, s3_server
from tests.support.web import WebServer, web_server
from torchrec_io._storage.remote.process import close_connections


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """Return an S3 server with a bucket, for all tests."""
    with s3_server() as server:
        yield server


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[Proxy]:
    """Return a proxy to the S3 server, which counts requests and makes faults."""
    with proxy_to(s3.port) as proxy:
        yield proxy


@pytest.fixture
def web() -> Iterator[WebServer]:
    """Return an HTTP server without files."""
    with web_server() as server:
        yield server


@pytest.fixture(autouse=True)
def _only_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse connections of tests to other machines."""
    for name in ("connect", "connect_ex"):
        connect = getattr(socket.socket, name)

        def checked(self: socket.socket, address: Any, connect: Any = connect) -> Any:
            if self.family in {socket.AF_INET, socket.AF_INET6}:
                is_own = address[0] == "localhost" or ipaddress.ip_address(address[0]).is_loopback
                assert is_own, f"a test connects to {address}"
            return connect(self, address)

        monkeypatch.setattr(socket.socket, name, checked)


@pytest.fixture(autouse=True, scope="session")
def _end_helpers() -> Iterator[None]:
    yield
    close_connections()
