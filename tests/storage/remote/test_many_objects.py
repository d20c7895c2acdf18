"""The requests before the first batch of a dataset of many objects."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.proxy import Proxy
from tests.support.stores import BUCKET, S3Server
from tests.support.tfrecord import write_tfrecord

OBJECTS = 1000


@pytest.mark.slow
def test_one_listing_and_two_reads(s3: S3Server, proxy: Proxy, tmp_path: Path) -> None:
    for number in range(OBJECTS):
        write_tfrecord(tmp_path / f"{number:04}.tfrecord", [b"%d" % number] * 100)
    s3.put_files(tmp_path, "many")

    def first_batch() -> Any:
        dataset = tio.TFRecordDataset(
            f"s3://{BUCKET}/many/", batch_size=100, storage_options=s3.options(proxy.port)
        )
        assert len(dataset) == OBJECTS
        batches: Any = iter(dataset)
        with closing(batches):
            return next(batches)

    assert first_batch() == [b"0"] * 100
    proxy.requests.clear()
    assert first_batch() == [b"0"] * 100
    listings = [request for request in proxy.requests if "list-type=2" in request]
    assert len(listings) == OBJECTS // 1000  # a page of the listing has 1,000 objects
    reads = [request.split()[:2] for request in proxy.requests if request not in listings]
    # Other objects are read ahead of the next batches.
    assert {(method, name.partition("?")[0][-9:]) for method, name in reads} == {
        ("GET", ".tfrecord")
    }
    assert 1 <= sum(name.endswith("/0000.tfrecord") for _, name in reads) <= 2
