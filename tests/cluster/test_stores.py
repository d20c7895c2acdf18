"""Jobs that read from and write to a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.cluster.local_ray import LocalRay
from tests.cluster.stored import names
from tests.cluster.test_resharding import RECORDS
from tests.support.stores import S3Server
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io._storage.folders import stamps_in
from torchrec_io._storage.location import Location
from torchrec_io._storage.remote.connection import HelperConnection
from torchrec_io._storage.remote.options import RemoteOptions
from torchrec_io._storage.remote.upload import put_object
from torchrec_io.cluster import tasks


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setattr(tasks, "TASK_BYTES", 1)
    return [write_tfrecord(tmp_path / f"in{i}", RECORDS[16 * i : 16 * i + 16]) for i in range(5)]


@pytest.mark.usefixtures("local_ray")
def test_shards_in_a_store(inputs: list[Path], in_store: str) -> None:
    found = tio.cluster.reshard(inputs, f"{in_store}/x", num_shards=3, compression="gzip")
    shards = {f"x-{shard:05d}-of-00003" for shard in range(3)}
    assert names(in_store) == {*shards, *(f"{shard}.tfidx" for shard in shards)}
    assert list(tio.TFRecordDataset(found.paths)) == RECORDS
    with pytest.raises(FileExistsError):
        tio.cluster.reshard(inputs, f"{in_store}/x", num_shards=3)
    tio.cluster.reshard(found.paths, f"{in_store}/y", num_shards=1)  # from a store, too
    tio.cluster.reshard(inputs, f"{in_store}/x", num_shards=1, force=True)
    assert names(in_store) == {
        f"{name}-00000-of-00001{end}" for name in "xy" for end in ("", ".tfidx")
    }
    assert list(tio.TFRecordDataset(f"{in_store}/y-*")) == RECORDS


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("name", ["reshard", "index"])
def test_options_of_the_store(
    inputs: list[Path],
    in_store: str,
    s3: S3Server,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All that is no secret comes from storage_options, and secrets from the environment."""
    secrets = {"access_key_id", "secret_access_key"}
    options: Any = {each: value for each, value in s3.options().items() if each not in secrets}
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.delenv("AWS_REGION")
    if name == "index":
        url = s3.put(f"{in_store.removeprefix('s3://data/')}/a", inputs[0].read_bytes())
        [found] = tio.cluster.index(url, storage_options=options)
        assert found.state == "indexed"
        return
    tio.cluster.reshard(inputs, f"{in_store}/x", num_shards=2, storage_options=options)
    dataset = tio.TFRecordDataset(f"{in_store}/x-*", storage_options=options)
    assert dataset.num_records == 80
    left = stamps_in(Location.of(in_store, options), is_recursive=True)
    assert not any(each.startswith(".") for each in left)


@pytest.mark.usefixtures("local_ray")
def test_a_failed_commit_leaves_nothing(
    inputs: list[Path], in_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = HelperConnection.ask

    def failing(client: HelperConnection, store: Any, name: str, *rest: Any) -> Any:
        if name == "copy" and rest[0].endswith("x-00001-of-00002"):
            raise OSError(5, "a fault of the test")
        return ask(client, store, name, *rest)

    monkeypatch.setattr(HelperConnection, "ask", failing)
    with pytest.raises(OSError, match="a fault of the test"):
        tio.cluster.reshard(inputs, f"{in_store}/x", num_shards=2)
    assert names(in_store) == set()


def test_indexes_are_written_beside_objects(in_store: str, local_ray: LocalRay) -> None:
    for number in range(3):
        with tio.TFRecordWriter(f"{in_store}/x{number}.tfrecord") as writer:
            for record in RECORDS[: 10 + number]:
                writer.write(record)
    paths = [f"{in_store}/x{number}.tfrecord" for number in range(3)]
    found = tio.cluster.index(in_store)
    assert [(each.path, each.state, each.records) for each in found] == [
        (path, "indexed", 10 + number) for number, path in enumerate(paths)
    ]
    assert {f"x{number}.tfrecord.tfidx" for number in range(3)} < names(in_store)
    assert max(local_ray.sent) < 3000
    put_object(paths[1], frame(b"new"), RemoteOptions())
    assert [each.state for each in tio.cluster.index(paths)] == [
        "up to date", "indexed", "up to date"]  # fmt: skip
    assert tio.TFRecordDataset(in_store).num_records == 10 + 1 + 12
    put_object(paths[2], b"no record", RemoteOptions())
    with pytest.raises(tio.TruncatedFileError, match=r"x2\.tfrecord"):
        tio.cluster.index(paths)
    with pytest.raises(OSError, match="an HTTP server cannot be written"):
        tio.cluster.index("https://host/a")


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("https://host/a", {"num_shards": 1}, OSError, "an HTTP server cannot be written"),
        ("s3://data", {"num_shards": 1}, ValueError, "must be the URL of an object in a store"),
        ("s3://data/x", {"max_bytes": 6 << 30}, ValueError, r"at most 5,368,709,120 \(5 GiB\)"),
    ],
)
def test_urls_that_cannot_be_written(
    inputs: list[Path], name: str, options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        tio.cluster.reshard(inputs, name, **options)


@pytest.mark.usefixtures("local_ray")
def test_shards_that_a_store_cannot_copy(
    inputs: list[Path], in_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchrec_io.cluster.shard_output.MOST_OBJECT_BYTES", 1000)
    with pytest.raises(ValueError, match=r"num_shards must be at least 5 for .* bytes"):
        tio.cluster.reshard(inputs, f"{in_store}/x", num_shards=4)
    assert names(in_store) == set()
