"""The shuffle on a cluster: the shards of one machine, bounded memory, and interruptions."""

from __future__ import annotations

import math
import tempfile
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.cluster.local_ray import LocalRay
from tests.support.tfrecord import write_tfrecord
from torchrec_io.cluster import tasks
from torchrec_io.cluster.bucket_files import BucketFiles, BucketLayout
from torchrec_io.cluster.parts import PartFolder

FILES = st.lists(
    st.tuples(
        st.lists(st.binary(max_size=60), max_size=20), st.sampled_from([None, "gzip", "zlib"])
    ),
    min_size=1,
    max_size=4,
)


def contents(folder: Path) -> dict[str, Any]:
    """Return the content of each file, and of an index what does not depend on the file's time."""
    found: dict[str, Any] = {}
    for path in folder.iterdir():
        if path.suffix == ".tfidx":
            index = tio.RecordIndex.load(path.with_suffix(""))
            found[path.name] = index.identity, index.offsets.tolist()
        else:
            found[path.name] = path.read_bytes()
    return found


def shuffle(paths: Sequence[str | Path], out: Path, **options: Any) -> tio.tools.Result:
    return tio.cluster.shuffle(paths, out / "x", **options)


@pytest.mark.usefixtures("local_ray")
@given(
    files=FILES,
    num_shards=st.integers(1, 5),
    seed=st.integers(-9, 9),
    limits=st.tuples(
        st.integers(1, 900), st.sampled_from([1, 300, 1 << 20]), st.sampled_from([1, 100, 1 << 20])
    ),
    damaged=st.none() | st.integers(0, 3),
)
def test_shards_are_those_of_one_machine(
    files: list[tuple[list[bytes], str | None]],
    num_shards: int,
    seed: int,
    limits: tuple[int, int, int],
    damaged: int | None,
) -> None:
    task_bytes, grouped_bytes, chunk_bytes = limits
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "TASK_BYTES", grouped_bytes)
        patch.setattr("torchrec_io.cluster.bucket_files._CHUNK_BYTES", chunk_bytes)
        paths = []
        for number, (records, compression) in enumerate(files):
            paths.append(str(Path(name) / f"in{number}"))
            write_tfrecord(paths[-1], records, compression)
            if number == damaged and records and compression is None:
                content = bytearray(Path(paths[-1]).read_bytes())
                content[-1] ^= 1  # the checksum of the last record
                Path(paths[-1]).write_bytes(content)
        options: dict[str, Any] = {"num_shards": num_shards, "seed": seed, "on_error": "skip"}
        one, many = Path(name) / "one", Path(name) / "many"
        expected = tio.tools.shuffle(paths, one / "x", **options)
        found = shuffle(paths, many, task_bytes=task_bytes, **options)
        assert contents(many) == contents(one)
        assert (found.counts, found.skipped) == (expected.counts, expected.skipped)
        assert sorted(map(str, found.errors)) == sorted(map(str, expected.errors))


@given(
    records=st.integers(0, 400),
    size=st.integers(0, 10**6),
    num_shards=st.integers(1, 50),
    task_bytes=st.integers(1, 10**6),
)
def test_buckets_divide_the_shards(
    records: int, size: int, num_shards: int, task_bytes: int
) -> None:
    layout = BucketLayout.of(records, size, num_shards, 0, task_bytes)
    positions = np.arange(records)
    buckets = layout.buckets_of(positions)
    assert (buckets // layout.buckets == positions % num_shards).all()
    for shard in range(num_shards):
        assert (np.diff(buckets[shard::num_shards]) >= 0).all()
    if records >= num_shards * layout.buckets:
        largest = math.ceil(math.ceil(records / num_shards) / layout.buckets)
        assert np.bincount(buckets).max() <= largest


@pytest.mark.usefixtures("local_ray")
def test_memory_of_a_task_is_bounded(tmp_path: Path) -> None:
    count, task_bytes = 100_000, 1_000_000
    path = write_tfrecord(tmp_path / "in", [b"%044d" % number for number in range(count)])
    tio.RecordIndex.build(path).save()
    shuffle([path], tmp_path / "warm", num_shards=1, index=False)
    tracemalloc.start()
    try:
        shuffle([path], tmp_path / "out", num_shards=2, index=False, task_bytes=task_bytes)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    in_a_task = task_bytes // 60
    assert peak < task_bytes + 64 * in_a_task + (4 << 20)  # the input has 6 MB


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Write a file of 100 records, which are cut into many tasks."""
    monkeypatch.setattr(tasks, "TASK_BYTES", 1)
    path = tmp_path / "in"
    write_tfrecord(path, [b"record %d" % number for number in range(100)])
    return [str(path)]


OPTIONS: dict[str, Any] = {"num_shards": 3, "task_bytes": 250}


def test_an_interrupted_job_continues(
    inputs: list[str], tmp_path: Path, local_ray: LocalRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    shuffle(inputs, tmp_path / "whole", **OPTIONS)
    assert len(local_ray.sent) == 1 + 10 + 3  # the first one indexes the file
    written: list[tuple[str, int]] = []
    write = PartFolder.write

    def write_some(folder: PartFolder, number: int, *args: Any, **options: Any) -> Any:
        if len(written) == 12:
            raise KeyboardInterrupt
        done = write(folder, number, *args, **options)
        written.append((folder.location.name, number))
        return done

    monkeypatch.setattr(PartFolder, "write", write_some)
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        shuffle(inputs, out, **OPTIONS)
    assert all(path.name.startswith(".") for path in out.iterdir())
    first = written.copy()
    written.clear()
    shuffle(inputs, out, **OPTIONS)
    assert contents(out) == contents(tmp_path / "whole")
    assert len({*first, *written}) == len(first) + len(written) == 10 + 3


@pytest.mark.usefixtures("local_ray")
def test_damage_of_files_of_the_first_pass_is_noticed(
    inputs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = BucketFiles.finish

    def damage(buckets: BucketFiles, parts: Any) -> None:
        path = Path(buckets.folder.file_of(parts[4].number))
        content = bytearray(path.read_bytes())
        content[40] ^= 1
        path.write_bytes(content)
        finish(buckets, parts)

    monkeypatch.setattr(BucketFiles, "finish", damage)
    with pytest.raises(tio.CorruptRecordError, match="buckets"):
        shuffle(inputs, tmp_path / "out", **OPTIONS)
    assert not list((tmp_path / "out").glob("x*"))


def test_no_shard_is_written_if_a_record_is_damaged(tmp_path: Path, local_ray: LocalRay) -> None:
    path = write_tfrecord(tmp_path / "in", [b"abc", b"def"])
    content = bytearray(Path(path).read_bytes())
    content[13] ^= 1
    Path(path).write_bytes(content)
    with pytest.raises(tio.CorruptRecordError, match="record 0, offset 0"):
        shuffle([path], tmp_path / "out", num_shards=2)
    assert all(path.name.startswith(".") for path in (tmp_path / "out").iterdir())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BucketFiles, "_load", None)  # the input is not read again
        result = shuffle([path], tmp_path / "out", num_shards=2, on_error="skip")
    assert (result.records, result.skipped) == (1, 1)
    assert max(local_ray.sent) < 3000


@pytest.mark.usefixtures("local_ray")
def test_invalid_arguments(inputs: list[str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a folder"):
        tio.cluster.shuffle(inputs, f"{tmp_path}/", num_shards=2)
    for bad in ({"num_shards": 0}, {"num_shards": 10**5}, {"num_shards": 2, "task_bytes": 0}):
        with pytest.raises(ValueError, match=r"num_shards|task_bytes"):
            shuffle(inputs, tmp_path / "out", **bad)
    shuffle(inputs, tmp_path / "out", num_shards=2)
    with pytest.raises(FileExistsError):
        shuffle(inputs, tmp_path / "out", num_shards=2)
    shards = sorted(map(str, (tmp_path / "out").glob("x*[0-9]")))
    with pytest.raises(ValueError, match="could overwrite the input"):
        shuffle(shards, tmp_path / "out", num_shards=2, force=True)
    assert shuffle(inputs, tmp_path / "out", num_shards=1, force=True).records == 100
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == [
        "x-00000-of-00001",
        "x-00000-of-00001.tfidx",
    ]
