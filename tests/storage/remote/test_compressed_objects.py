"""Compressed objects of a store: only the parts that are needed are fetched."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import torchrec_io as tio
from tests.support.tfrecord import frame
from tests.support.web import WebServer

RECORDS = [np.random.default_rng(n).bytes(9000) + n.to_bytes(4, "little") for n in range(800)]
DATA = gzip.compress(b"".join(map(frame, RECORDS)))


@pytest.fixture
def url(web: WebServer, tmp_path: Path) -> str:
    """Return the URL of an object with an index beside it, which has many seek points."""
    local = tmp_path / "x.tfrecord.gz"
    local.write_bytes(DATA)
    index = tio.RecordIndex.build(local, seek_point_bytes=300_000).save()
    url = web.put("/x.tfrecord.gz", DATA)
    web.put("/x.tfrecord.gz.tfidx", index.read_bytes())
    return url


def fetched(web: WebServer) -> int:
    return sum(
        end - begin
        for begin, end in (get.range or (0, 0) for get in web.gets() if get.path.endswith(".gz"))
    )


def test_orders_equal_those_of_records(url: str) -> None:
    for shuffle in (False, True, 50, tio.Shuffle(block=20, window=100)):
        dataset = tio.TFRecordDataset(url, batch_size=20, shuffle=shuffle)
        got = [record for batch in dataset for record in batch]
        order = [int.from_bytes(record[-4:], "little") for record in got]
        assert [RECORDS[n] for n in order] == got
        assert sorted(order) == list(range(800))


def test_a_random_read_fetches_a_span(web: WebServer, url: str) -> None:
    dataset = tio.TFRecordMapDataset(url)
    web.requests.clear()
    assert dataset[500] == RECORDS[500]
    assert 0 < fetched(web) < 900_000
    assert len(DATA) > 7_000_000


def test_an_epoch_fetches_the_object_once(web: WebServer, url: str) -> None:
    for shuffle in (False, tio.Shuffle(block=20, window=100)):
        dataset = tio.TFRecordDataset(url, batch_size=20, shuffle=shuffle)
        len(dataset)
        web.requests.clear()
        assert sum(len(batch) for batch in dataset) == 800
        assert fetched(web) < 1.15 * len(DATA)
