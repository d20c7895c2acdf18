"""Compressed objects of a store: only the parts that are needed are fetched."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

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
    index = Path(tio.RecordIndex.build(local, seek_point_bytes=300_000).save())
    url = web.put("/x.tfrecord.gz", DATA)
    web.put("/x.tfrecord.gz.tfidx", index.read_bytes())
    return url


def fetched(web: WebServer) -> int:
    return sum(
        end - begin
        for begin, end in (get.range or (0, 0) for get in web.gets() if get.path.endswith(".gz"))
    )


def test_a_random_read_fetches_a_chunk(web: WebServer, url: str) -> None:
    dataset = tio.TFRecordMapDataset(url)
    web.requests.clear()
    assert dataset[500] == RECORDS[500]
    assert 0 < fetched(web) < 900_000
    assert len(DATA) > 7_000_000


@pytest.mark.parametrize(
    ("shuffle", "num_threads"), [(False, 1), (tio.Shuffle(block=20, window=100), 4)]
)
def test_an_epoch_fetches_the_object_once(
    web: WebServer, url: str, shuffle: Any, num_threads: int
) -> None:
    """Also where a thread fetches what is needed next while others decode."""
    dataset = tio.TFRecordDataset(url, batch_size=20, shuffle=shuffle, num_threads=num_threads)
    len(dataset)
    web.requests.clear()
    assert sum(len(batch) for batch in dataset) == 800
    # A span with records of two blocks may be decoded for each of them. A thread may begin to
    # decode just when another one announces the span.
    limit = 1.4 if isinstance(shuffle, tio.Shuffle) else 1.15
    assert fetched(web) < limit * len(DATA)
