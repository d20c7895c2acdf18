"""ShardedWriter: the shard of each record, and complete sets of files."""

from __future__ import annotations

import os
import resource
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.writing.test_record_writer import read
from torchrec_io._storage.compression import Compression
from torchrec_io._storage.location import Location
from torchrec_io._storage.paths import expand_paths


def write(name: Path, records: list[Any], **options: Any) -> list[Path]:
    with tio.ShardedWriter(name, **options) as writer:
        for record in records:
            writer.write(record)
    assert len(writer) == len(records)
    return [Path(path) for path in writer.paths]


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# ---- shards by number ----


@pytest.mark.parametrize(("compression", "index"), [(None, False), ("gzip", True), ("zlib", True)])
def test_records_go_to_shards_in_turn(
    tmp_path: Path, compression: Compression | None, index: bool
) -> None:
    records = [b"%d" % number for number in range(10)]
    paths = write(tmp_path / "train", records, num_shards=4, compression=compression, index=index)
    assert paths == [tmp_path / f"train-0000{shard}-of-00004" for shard in range(4)]
    assert [read(path) for path in paths] == [records[shard::4] for shard in range(4)]
    assert expand_paths(tmp_path) == [Location.of(path) for path in paths]
    for path in paths:
        assert os.path.exists(f"{path}.tfidx") == index
        if index:
            built = tio.RecordIndex.build(path).file_bytes.tobytes()
            assert Path(f"{path}.tfidx").read_bytes() == built


def test_shards_without_records_exist(tmp_path: Path) -> None:
    paths = write(tmp_path / "x", [b"a"], num_shards=3, compression="gzip")
    assert [read(path) for path in paths] == [[b"a"], [], []]
    assert [read(p) for p in write(tmp_path / "y", [], max_bytes=9)] == [[]]


def test_shard_path() -> None:
    assert tio.shard_path("a/train", 3, 8) == "a/train-00003-of-00008"
    assert tio.shard_path(Path("x.tfrecord"), 0, 99_999) == "x.tfrecord-00000-of-99999"
    for shard, num_shards in [(-1, 2), (2, 2), (0, 0), (0, 100_000)]:
        with pytest.raises(ValueError, match="shard must be from 0 to"):
            tio.shard_path("x", shard, num_shards)


# ---- shards by key ----

KEYS = st.one_of(st.binary(max_size=4), st.text("aäb\x00", max_size=3), st.integers(-50, 50))


@given(keys=st.lists(KEYS, max_size=30), num_shards=st.integers(1, 5))
def test_each_key_is_in_one_shard(
    tmp_path: Path, keys: list[bytes | str | int], num_shards: int
) -> None:
    forms = [
        key if isinstance(key, bytes) else key.encode() if isinstance(key, str) else b"%d" % key
        for key in keys
    ]
    for other in tmp_path.iterdir():
        other.unlink()
    with tio.ShardedWriter(tmp_path / "x", num_shards) as writer:
        for key, form in zip(keys, forms, strict=True):
            writer.write(form, key)
    shards = [read(Path(path)) for path in writer.paths]
    assert Counter(record for shard in shards for record in shard) == Counter(forms)
    homes = {record: number for number, shard in enumerate(shards) for record in shard}
    for form in set(forms):
        assert shards[homes[form]].count(form) == forms.count(form)


def test_shard_of_a_key_is_stable(tmp_path: Path) -> None:
    keys: list[Any] = ["a", b"\x00\xff", "user-1", "größer", 0, 17, np.int64(17), -1, 2**70]
    with tio.ShardedWriter(tmp_path / "x", 8) as writer:
        shards = [writer._shards.shard_of(key) for key in keys]
        assert writer._shards.shard_of("17") == writer._shards.shard_of(b"17") == shards[5]
    assert shards == [0, 0, 2, 6, 4, 0, 0, 7, 7]


def test_keys_do_not_alternate(tmp_path: Path) -> None:
    with tio.ShardedWriter(tmp_path / "x", 2) as writer:
        for record, key in [(b"0", None), (b"k", "k"), (b"1", None), (b"k", "k"), (b"2", None)]:
            writer.write(record, key)
    shards = [[r for r in read(Path(path)) if r != b"k"] for path in writer.paths]
    assert shards == [[b"0", b"2"], [b"1"]]


@pytest.mark.parametrize("key", [1.5, ["a"], object()])
def test_invalid_keys(tmp_path: Path, key: Any) -> None:
    with tio.ShardedWriter(tmp_path / "x", 2) as writer:
        with pytest.raises(TypeError, match="key must be bytes, a str or an int"):
            writer.write(b"a", key)
        with pytest.raises(TypeError, match="record must be bytes"):
            writer.write(None)
        assert len(writer) == 0
        writer.write(b"b")
    assert [read(Path(path)) for path in writer.paths] == [[b"b"], []]


# ---- shards by size ----


@given(sizes=st.lists(st.integers(0, 60), max_size=30), max_bytes=st.integers(1, 150))
def test_shards_are_filled(tmp_path: Path, sizes: list[int], max_bytes: int) -> None:
    records = [bytes([number]) * size for number, size in enumerate(sizes)]
    wanted: list[list[bytes]] = [[]]
    for record in records:
        if wanted[-1] and sum(len(r) + 16 for r in [*wanted[-1], record]) > max_bytes:
            wanted.append([])
        wanted[-1].append(record)
    for other in tmp_path.iterdir():
        other.unlink()
    paths = write(tmp_path / "x", records, max_bytes=max_bytes)
    assert [read(path) for path in paths] == wanted
    assert [str(path) for path in paths] == [
        tio.shard_path(tmp_path / "x", shard, len(paths)) for shard in range(len(paths))
    ]


@pytest.mark.parametrize(("compression", "random_bytes"), [("gzip", True), ("zlib", False)])
def test_compressed_shards_are_filled(
    tmp_path: Path, compression: Compression, random_bytes: bool
) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 3000, 1500).tolist()
    records = [rng.bytes(s) if random_bytes else bytes(rng.bytes(s // 9 + 1) * 9) for s in sizes]
    records.insert(700, rng.bytes(200_000))
    paths = write(tmp_path / "x", records, max_bytes=100_000, compression=compression, index=True)
    shards = [read(path) for path in paths]
    assert [record for shard in shards for record in shard] == records
    files = [os.path.getsize(path) for path in paths]
    for size, shard in zip(files, shards, strict=True):
        assert size <= 100_000 or len(shard) == 1
    full = [size for size in files[:-1] if size <= 100_000]
    # Only the shard before the large record may be smaller.
    assert len([size for size in full if size > 85_000]) >= len(full) - 1


# ---- sets of files ----


def test_set_with_another_number_of_shards_is_rejected(tmp_path: Path) -> None:
    write(tmp_path / "x", [b"a"] * 3, num_shards=3)
    write(tmp_path / "x-y", [b"a"], num_shards=1)  # another name
    before = names(tmp_path)
    with pytest.raises(FileExistsError, match="with the 2 shards") as caught:
        tio.ShardedWriter(tmp_path / "x", 2)
    assert caught.value.filename == str(tmp_path / "x-00000-of-00003")
    with pytest.raises(FileExistsError, match="with the 1 shard to"):
        write(tmp_path / "x", [b"b"], max_bytes=100)
    writer = tio.ShardedWriter(tmp_path / "z", 2)
    (tmp_path / "z-00000-of-00004").touch()
    with pytest.raises(FileExistsError, match="z-00000-of-00004"):
        writer.close()
    os.unlink(tmp_path / "z-00000-of-00004")
    assert names(tmp_path) == before


def test_set_with_the_same_number_of_shards_is_replaced(tmp_path: Path) -> None:
    write(tmp_path / "x", [b"a", b"b"], num_shards=2, index=True)
    for options in ({"num_shards": 2}, {"max_bytes": 17}):
        paths = write(tmp_path / "x", [b"c", b"d"], **options)
        assert [read(path) for path in paths] == [[b"c"], [b"d"]]
        assert names(tmp_path) == ["x-00000-of-00002", "x-00001-of-00002"]


def test_writing_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with tio.ShardedWriter("train", num_shards=1) as writer:
        writer.write(b"a")
    assert writer.paths == ["train-00000-of-00001"]
    with pytest.raises(FileExistsError):
        tio.ShardedWriter("train", num_shards=2)
    (tmp_path / "other").mkdir()
    with tio.ShardedWriter("more", max_bytes=20) as writer:
        writer.write(b"a")
        os.chdir("other")
        writer.write(b"b" * 9)
    assert names(tmp_path)[:2] == writer.paths == ["more-00000-of-00002", "more-00001-of-00002"]


@pytest.mark.parametrize("options", [{"num_shards": 3}, {"max_bytes": 20}])
def test_too_long_names_are_rejected_immediately(tmp_path: Path, options: dict[str, int]) -> None:
    longest = "x" * (255 - len("-00000-of-00003"))
    with pytest.raises(OSError, match="File name too long"):
        tio.ShardedWriter(tmp_path / f"{longest}x", **options)  # type: ignore[arg-type]
    assert names(tmp_path) == []
    write(tmp_path / longest, [b"a", b"b", b"c"], **options)
    assert len(names(tmp_path)) == 3


@pytest.mark.parametrize("options", [{"num_shards": 3}, {"max_bytes": 20}])
def test_no_file_has_its_name_before_the_end(tmp_path: Path, options: dict[str, int]) -> None:
    writer = tio.ShardedWriter(tmp_path / "x", **options, index=True)  # type: ignore[arg-type]
    for _ in range(5):
        writer.write(b"abc")
    assert all(name.startswith(".x-0000") for name in names(tmp_path))
    with pytest.raises(ValueError, match="no paths before it is closed"):
        print(writer.paths)
    writer.discard()
    assert names(tmp_path) == []


def test_too_many_open_files(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 10, hard))
    try:
        with pytest.raises(
            OSError, match=r"files: this process may have \d+ open. Raise the limit \(ulimit"
        ) as caught:
            tio.ShardedWriter(tmp_path / "x", 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "x-000" in caught.value.filename
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "exactly one of num_shards and max_bytes"),
        ({"num_shards": 2, "max_bytes": 2}, "exactly one of num_shards and max_bytes"),
        ({"num_shards": 0}, "num_shards must be an integer from 1 to 99999, got 0"),
        ({"num_shards": 100_000}, "got 100000"),
        ({"max_bytes": 0}, "max_bytes must be a positive integer, got 0"),
        ({"num_shards": 2, "compression": "auto"}, r"one of None, 'gzip', 'zlib', 'zstd', got"),
    ],
)
def test_invalid_arguments(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        tio.ShardedWriter(tmp_path / "x", **options)
    assert names(tmp_path) == []


def test_keys_cannot_be_used_with_max_bytes(tmp_path: Path) -> None:
    with tio.ShardedWriter(tmp_path / "x", max_bytes=100) as writer:
        with pytest.raises(ValueError, match="key cannot be used with max_bytes"):
            writer.write(b"a", key="k")
        writer.write(b"b")
    assert [read(Path(path)) for path in writer.paths] == [[b"b"]]
