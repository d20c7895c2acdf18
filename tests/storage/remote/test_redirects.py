"""Redirects to another host, which must not get what is secret."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.web import WebServer, web_server
from torchrec_io._storage.byte_source import read_bytes
from torchrec_io._storage.location import Location
from torchrec_io._storage.remote.redirects import hosts_of, only_hosts

DATA = bytes(range(256)) * 1000
REFUSED = "the request was refused .the server redirects to another host, which must not get"
AWS = {
    "access_key_id": "key",
    "secret_access_key": "word-5f2a",
    "token": "session-5f2a",
    "region": "us-east-1",
}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a second loopback address")


@pytest.fixture
def other() -> Iterator[WebServer]:
    """Return a server on another host, which has the same files."""
    with web_server("127.0.0.2") as server:
        for path in ("/a", "/b", "/data/a"):
            server.put(path, DATA)
        yield server


@pytest.fixture
def redirect(other: WebServer) -> Callable[[Any], None]:
    """Return a fault that sends a request to the other host."""

    def answer(handler: Any) -> None:
        path = handler.path.partition("?")[0]
        handler.status(302, Location=other.url(path))

    return answer


def read(url: str, **options: Any) -> bytes:
    # Only ranges of more than a byte are redirected.
    return read_bytes(Location.of(url, {"max_attempts": 2, **options}).open(), 0, len(DATA))


def test_public_files_may_be_elsewhere(
    web: WebServer, other: WebServer, redirect: Callable[[Any], None]
) -> None:
    url = web.put("/a", DATA)
    web.faults = [redirect]
    assert read(url) == DATA
    assert other.gets()


@pytest.mark.parametrize("name", ["Authorization", "Cookie"])
def test_headers_that_are_left_out(
    web: WebServer, other: WebServer, redirect: Callable[[Any], None], name: str
) -> None:
    url = web.put("/a", DATA)
    web.faults = [redirect]
    assert read(url, client_options={"default_headers": {name: "Bearer 5f2a"}}) == DATA
    [request] = other.gets()
    assert "5f2a" not in str(request.headers)


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("/a?X-Amz-Signature=5f2a", {}),
        ("/a", {"client_options": {"default_headers": {"X-Api-Key": "5f2a"}}}),
    ],
)
def test_secrets_are_not_sent_along(
    web: WebServer,
    other: WebServer,
    redirect: Callable[[Any], None],
    path: str,
    options: dict[str, Any],
) -> None:
    url = web.put(path, DATA)
    assert read(url, **options) == DATA
    web.faults = [redirect]
    with pytest.raises(OSError, match=REFUSED) as caught:
        read(url, **options)
    assert "5f2a" not in str(caught.value)
    assert not other.requests
    assert read(url, **options) == DATA


@pytest.mark.parametrize("scheme", ["s3", "az"])
def test_credentials_of_stores_are_not_sent_along(
    web: WebServer, other: WebServer, redirect: Callable[[Any], None], scheme: str
) -> None:
    endpoint = f"http://127.0.0.1:{web.port}"
    options: dict[str, Any] = {"endpoint": endpoint}
    if scheme == "s3":
        options |= AWS
        path = "/data/a"
    else:
        options |= {"account_name": "me", "sas_token": "sig=5f2a", "allow_http": True}
        path = "/data/a?sig=5f2a"
    web.put(path, DATA)
    assert read(f"{scheme}://data/a", **options) == DATA
    web.faults = [redirect]
    with pytest.raises(OSError, match=REFUSED) as caught:
        read(f"{scheme}://data/a", **options)
    assert "5f2a" not in str(caught.value)
    assert not other.requests


def test_a_redirect_within_the_host(web: WebServer) -> None:
    url = web.put("/a?X-Amz-Signature=5f2a", DATA)
    web.put("/b", DATA)
    web.faults = [lambda handler: handler.status(302, Location=web.url("/b"))]
    assert read(url) == DATA


def test_hosts_of_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://10.1.2.3:80/x")
    known = {*hosts_of("s3", "b", "eu-west-1", "")}
    domain = "eu-west-1.amazonaws.com"
    assert {f"s3.{domain}", f"sts.{domain}", "169.254.169.254", "10.1.2.3"} <= known
    assert domain not in known  # programs of anybody are below it
    assert f"s3express-euw1-az1.{domain}" in hosts_of("s3", "b--euw1-az1--x-s3", "eu-west-1", "")
    own = hosts_of("s3", "b", "x", "https://minio.example:9000")
    assert own[0] == "minio.example"
    assert "s3.x.amazonaws.com" not in own
    assert "googleapis.com" in hosts_of("gs", "b", "", "")
    assert "me.blob.core.windows.net" in hosts_of("az", "b", "me", "")
    assert "blob.core.windows.net" in hosts_of("az", "b", "", "")


def test_a_proxy_of_the_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    assert only_hosts(["a.example", ""], {})["proxy_excludes"] == "a.example"
    assert only_hosts(["a.example"], {"proxy_url": "http://p"}) == {}
    monkeypatch.setenv("HTTPS_PROXY", "http://p")
    assert only_hosts(["a.example"], {}) == {}
    monkeypatch.setenv("NO_PROXY", "example")
    assert only_hosts(["a.example"], {}) != {}
