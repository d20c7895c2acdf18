"""Resharding in tasks keeps each record once and in order, and gives all shards or none."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import torchrec_io as tio
from tests.cluster.damage import damage_silently
from tests.cluster.local_ray import LocalRay
from tests.convert.reading import Heard
from tests.support.tfrecord import write_tfrecord
from torchrec_io._records.opening import open_indexes
from torchrec_io._storage.paths import expand_paths
from torchrec_io.cluster import tasks

RECORDS = [bytes([i]) * (i * 37 % 91) for i in range(80)]


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.usefixtures("local_ray")
@settings(max_examples=30)
@given(
    cuts=st.lists(st.integers(0, 80), max_size=2),
    flips=st.lists(st.integers(0, 79), max_size=3),
    lengths=st.booleans(),
    indexed=st.booleans(),
    compressed=st.sampled_from([None, "gzip"]),
    options=st.one_of(
        st.builds(dict, num_shards=st.integers(1, 9)),
        st.builds(dict, max_bytes=st.integers(1, 4000)),
        st.builds(dict, num_shards=st.just(3), compression=st.sampled_from(["gzip", "zstd"])),
    ),
)
@example([50], [20], True, True, None, {"num_shards": 3})
@example([50], [20], True, False, None, {"max_bytes": 500})
def test_shards_have_the_records_in_order(  # noqa: PLR0917
    tmp_path_factory: pytest.TempPathFactory,
    cuts: list[int],
    flips: list[int],
    lengths: bool,
    indexed: bool,
    compressed: Any,
    options: dict[str, Any],
) -> None:
    folder = tmp_path_factory.mktemp("files")
    ends = [0, *sorted(cuts), len(RECORDS)]
    paths = []
    for number, (begin, end) in enumerate(itertools.pairwise(ends)):
        path = folder / f"in{number}"
        write_tfrecord(path, RECORDS[begin:end], compressed)
        paths.append(path)
        index = tio.RecordIndex.build(path)
        if indexed:
            index.save()
        if compressed is None and len(index):
            places = {int(index.offsets[flip % len(index)]) for flip in flips}
            damage_silently(path, [place + (2 if lengths else -2) for place in places])
    before = set(names(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "TASK_BYTES", 500)
        found = tio.cluster.reshard(paths, folder / "ray", on_error="skip", **options)
    wanted = tio.tools.merge(paths, folder / "one", on_error="skip")
    assert list(tio.TFRecordDataset(found.paths)) == list(tio.TFRecordDataset(folder / "one"))
    assert (found.records, found.skipped) == (wanted.records, wanted.skipped)
    assert sorted(map(str, found.errors)) == sorted(map(str, wanted.errors))
    shards = {os.path.basename(path) for path in found.paths}
    assert set(names(folder)) - before == {
        *shards, *(f"{shard}.tfidx" for shard in shards), "one", "one.tfidx"
    }  # fmt: skip
    for written in found.paths:
        tio.RecordIndex.load(written)
    if "num_shards" in options:
        indexes, _ = open_indexes(expand_paths(paths), "auto", "auto")
        total = sum(map(len, indexes))
        assert len(found.counts) == options["num_shards"]
        assert max(found.counts) <= -(-total // options["num_shards"])
    else:
        sizes = [os.path.getsize(written) for written in found.paths]
        assert all(
            size <= options["max_bytes"] or count == 1
            for size, count in zip(sizes, found.counts, strict=True)
        )


def test_a_damaged_record_ends_the_job(tmp_path: Path, local_ray: LocalRay) -> None:
    path = write_tfrecord(tmp_path / "in", RECORDS)
    index = tio.RecordIndex.build(path)
    damage_silently(path, [int(index.offsets[70]) + 14])
    before = names(tmp_path)
    with pytest.raises(tio.CorruptRecordError) as raised:
        tio.cluster.reshard(path, tmp_path / "ray", num_shards=2)
    assert (raised.value.path, raised.value.record) == (str(path), 70)
    assert names(tmp_path) == before
    local_ray.runs = 2  # tasks whose first process was lost
    result = tio.cluster.reshard(path, tmp_path / "ray", num_shards=2, on_error="skip")
    assert (result.counts, result.skipped) == ((40, 39), 1)


@pytest.mark.usefixtures("local_ray")
def test_many_errors_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchrec_io.cluster.shard_folder.MOST_KEPT_ERRORS", 5)
    path = write_tfrecord(tmp_path / "in", [b"x"] * 40)
    damage_silently(path, [17 * record + 12 for record in range(30)])
    found = tio.cluster.reshard(path, tmp_path / "ray", num_shards=1, on_error="skip")
    assert (found.records, found.skipped, len(found.errors)) == (10, 30, 5)
    assert [error.record for error in found.errors] == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("local_ray")
def test_outputs_that_exist(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "in", RECORDS)
    tio.cluster.reshard(path, tmp_path / "ray", num_shards=5)
    with pytest.raises(FileExistsError):
        tio.cluster.reshard(path, tmp_path / "ray", num_shards=2)
    damaged = write_tfrecord(tmp_path / "damaged", RECORDS)
    damage_silently(damaged, [14])
    with pytest.raises(tio.CorruptRecordError):  # the old shards stay
        tio.cluster.reshard(damaged, tmp_path / "ray", num_shards=2, force=True)
    assert list(tio.TFRecordDataset(f"{tmp_path}/ray-*of-00005")) == RECORDS
    tio.cluster.reshard(path, tmp_path / "ray", num_shards=2, force=True, index=False)
    assert names(tmp_path) == ["damaged", "in", "ray-00000-of-00002", "ray-00001-of-00002"]
    with pytest.raises(ValueError, match="could overwrite the input"):
        tio.cluster.reshard(f"{tmp_path}/ray-*", tmp_path / "ray", num_shards=3, force=True)


@pytest.mark.usefixtures("local_ray")
def test_progress(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "in", RECORDS)
    heard = Heard()
    tio.cluster.reshard(path, tmp_path / "ray", num_shards=3, watcher=heard)
    assert heard.total == heard.size == path.stat().st_size
    assert heard.records == 80


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of num_shards and max_bytes"),
        ({"num_shards": 2, "max_bytes": 5}, "exactly one of num_shards and max_bytes"),
        ({"num_shards": 0}, "num_shards must be"),
        ({"num_shards": 100_000}, "at most 99,999"),
        ({"max_bytes": 0}, "max_bytes must be"),
        ({"max_bytes": 9, "compression": "gzip"}, "max_bytes cannot be used with compression"),
        ({"num_shards": 1, "compression": "xz"}, "compression must be"),
        ({"num_shards": 1, "on_error": "no"}, "on_error must be"),
        ({"num_shards": 1, "name": "."}, "is a folder"),
    ],
)
def test_invalid_arguments(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    path = write_tfrecord(tmp_path / "in", RECORDS[:1])
    name = options.pop("name", tmp_path / "ray")
    with pytest.raises(ValueError, match=message):
        tio.cluster.reshard(path, name, **options)
    assert os.listdir(tmp_path) == ["in"]
