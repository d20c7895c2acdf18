"""Uploads of writers, where the network, the store or the helper process fails."""

from __future__ import annotations

import http.server
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

import torchrec_io as tio
from tests.support.proxy import Proxy, proxy_to
from tests.support.stores import S3Server
from torchrec_io.storage.remote import pending_object
from torchrec_io.storage.remote.large_uploads import PART_BYTES
from torchrec_io.storage.remote.listing import list_folder
from torchrec_io.storage.remote.options import RemoteOptions
from torchrec_io.storage.remote.process import access

LARGE = [bytes([number]) * 1_000_000 for number in range(20)]


def names_in(s3: S3Server, folder: str) -> list[str]:
    return sorted(list_folder(f"s3://data/{folder}", RemoteOptions(s3.options())))


@pytest.fixture
def proxy(s3: S3Server) -> Any:
    with proxy_to(s3.port) as proxy:
        yield proxy


@pytest.mark.parametrize("records", [LARGE[:3], LARGE], ids=["one request", "in parts"])
def test_connections_that_are_reset(s3: S3Server, proxy: Proxy, records: list[bytes]) -> None:
    options = s3.options(proxy.port)
    url = "s3://data/reset/a.tfrecord"
    with tio.TFRecordWriter(url, storage_options=options) as writer:
        for number, record in enumerate(records):
            if number in {0, 10}:
                proxy.most_sent = 3_000_000 if number else 1000
            writer.write(record)
        proxy.most_sent = 1000
    assert proxy.most_sent is None
    assert list(tio.TFRecordDataset(url, storage_options=s3.options())) == records


def test_an_upload_that_never_succeeds(s3: S3Server, proxy: Proxy) -> None:
    options = {**s3.options(proxy.port), "max_attempts": 2}
    writer = tio.TFRecordWriter("s3://data/broken/a.tfrecord", storage_options=options)
    proxy.is_broken = True
    with pytest.raises(ConnectionError, match=r"failed after 2 attempts.*s3://data/broken/a.tf"):
        for _ in range(10):
            for record in LARGE:
                writer.write(record)
    with pytest.raises(OSError, match="an earlier write failed"):
        writer.write(b"more")
    proxy.is_broken = False
    writer.discard()
    assert names_in(s3, "broken") == []


class _FaultyStore(http.server.BaseHTTPRequestHandler):
    """A store that has no objects, and answers uploads by some statuses first."""

    protocol_version = "HTTP/1.1"
    statuses: ClassVar[list[int]] = []
    puts: ClassVar[list[bytes]] = []

    def do_HEAD(self) -> None:
        self._answer(404)

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.puts.append(body)
        self._answer(self.statuses.pop(0) if self.statuses else 200)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def faulty() -> Iterator[dict[str, Any]]:
    """Return the options of a store that makes faults."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _FaultyStore)
    _FaultyStore.puts.clear()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield {
        "endpoint": f"http://127.0.0.1:{server.server_port}",
        "access_key_id": "key",
        "secret_access_key": "word-5f2a",
        "region": "us-east-1",
    }
    server.shutdown()
    server.server_close()
    thread.join()


def test_statuses_that_are_tried_again(faulty: dict[str, Any]) -> None:
    _FaultyStore.statuses[:] = [503, 500, 429, 502]
    with tio.TFRecordWriter("s3://data/a", storage_options=faulty) as writer:
        writer.write(b"one")
    assert len(_FaultyStore.puts) == 5
    assert len(set(_FaultyStore.puts)) == 1


@pytest.mark.parametrize(
    ("statuses", "count", "kind", "message"),
    [
        ([503] * 9, 3, ConnectionError, r"failed after 3 attempts; last reason: HTTP 503: 's3://d"),
        ([403], 1, PermissionError, r"access denied \(HTTP 403\).*may write objects"),
        ([400], 1, OSError, r"the request was refused \(HTTP 400\): 's3://data/a'"),
    ],
)
def test_statuses_that_end_an_upload(
    faulty: dict[str, Any], statuses: list[int], count: int, kind: type[OSError], message: str
) -> None:
    _FaultyStore.statuses[:] = statuses
    writer = tio.TFRecordWriter("s3://data/a", storage_options={**faulty, "max_attempts": 3})
    writer.write(b"one")
    with pytest.raises(kind, match=message) as caught:
        writer.close()
    assert len(_FaultyStore.puts) == count
    assert "5f2a" not in str(caught.value)


def test_a_helper_that_was_killed(s3: S3Server) -> None:
    options = s3.options()
    writer = tio.TFRecordWriter("s3://data/helper/a.tfrecord", storage_options=options)
    for record in LARGE:
        writer.write(record)
    way = access("s3://data/helper/a.tfrecord", RemoteOptions(options))
    client: Any = way.fetcher.client
    os.kill(client.helper_pid, signal.SIGKILL)
    with pytest.raises(OSError, match=r"the upload was lost: .* 's3://data/helper/a.tfrecord'"):
        writer.close()
    assert names_in(s3, "helper") == []


def test_an_object_that_would_be_too_large(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_object, "MOST_PARTS", 1)
    writer = tio.TFRecordWriter("s3://data/large/a.tfrecord", storage_options=s3.options())
    with pytest.raises(OSError, match=r"an object cannot be larger than .* write several files"):
        for record in LARGE:
            writer.write(record)
    assert names_in(s3, "large") == []
    assert len(LARGE) * len(LARGE[0]) > 2 * PART_BYTES
