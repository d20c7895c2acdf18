"""Objects of a server of Google Cloud Storage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.stores import GcsServer, gcs_server
from tests.support.tfrecord import frame
from torchrec_io import TFRecordDataset, TFRecordStream

RECORDS = [b"%d" % number * 100 for number in range(40)]


@pytest.fixture(scope="module")
def gcs() -> Iterator[GcsServer]:
    with gcs_server() as server:
        for shard in range(2):
            content = b"".join(map(frame, RECORDS[shard::2]))
            server.put(f"set/x y-{shard:05d}-of-00002", content)
        yield server


@pytest.mark.parametrize("path", ["set", "set/x y-{00000..00001}-of-00002"])
def test_paths(gcs: GcsServer, path: str) -> None:
    dataset = TFRecordDataset(f"gs://data/{path}", shuffle=True, storage_options=gcs.options)
    assert sorted(dataset) == sorted(RECORDS)
    stream = TFRecordStream(f"gs://data/{path}", storage_options=gcs.options)
    assert sorted(stream) == sorted(RECORDS)


def test_options_from_the_environment(gcs: GcsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_BASE_URL", gcs.endpoint)
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    options = {"client_options": {"default_headers": {"x-api-key": "5f2a"}}}
    dataset = TFRecordDataset("gs://data/set/x*", storage_options=options)
    assert sorted(dataset) == sorted(RECORDS)
