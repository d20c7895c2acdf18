"""Uploads of writers, where the network, the store or the helper process fails."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.proxy import Proxy
from tests.support.stores import S3Server
from torchrec_io._storage.folders import stamps_in
from torchrec_io._storage.location import Location
from torchrec_io._storage.remote import pending_object
from torchrec_io._storage.remote.messages import PART_BYTES
from torchrec_io._storage.remote.options import RemoteOptions
from torchrec_io._storage.remote.process import access

LARGE = [bytes([number]) * 1_000_000 for number in range(20)]


def names_in(s3: S3Server, folder: str) -> list[str]:
    return sorted(stamps_in(Location.of(f"s3://data/{folder}", s3.options())))


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


def test_a_helper_that_was_killed(s3: S3Server) -> None:
    options = s3.options()
    writer = tio.TFRecordWriter("s3://data/helper/a.tfrecord", storage_options=options)
    for record in LARGE:
        writer.write(record)
    way = access("s3://data/helper/a.tfrecord", RemoteOptions(options))
    client: Any = way.client
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
