"""TFRecordWriter: accepted records, the resulting files, and errors."""

from __future__ import annotations

import copy
import gzip
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.tfrecord import frame
from torchrec_io._records.sequential import iter_records
from torchrec_io._storage.compression import Compression
from torchrec_io._storage.location import Location
from torchrec_io._storage.paths import expand_paths
from torchrec_io._writing.output_group import OutputGroup

COMPRESSIONS: tuple[Compression | None, ...] = (None, "gzip", "zlib")
every_compression = pytest.mark.parametrize("compression", COMPRESSIONS)


def write(path: Path, records: list[Any], **options: Any) -> None:
    with tio.TFRecordWriter(path, **options) as writer:
        for record in records:
            writer.write(record)


def read(path: Path) -> list[bytes]:
    return [record for _, record in iter_records(path)]


def stream_of(path: Path, compression: str | None) -> bytes:
    data = path.read_bytes()
    if compression == "gzip":
        return gzip.decompress(data)
    return zlib.decompress(data) if compression == "zlib" else data


# ---- files ----

RECORDS = st.lists(
    st.one_of(
        st.binary(max_size=40),
        # Around the size from which records are written directly.
        st.tuples(st.integers(65_520, 65_550), st.binary(min_size=1, max_size=3)).map(
            lambda drawn: (drawn[1] * drawn[0])[: drawn[0]]
        ),
    ),
    max_size=12,
)


@every_compression
@given(records=RECORDS, buffer_bytes=st.integers(1, 300))
def test_any_records_can_be_read(
    tmp_path: Path, compression: Compression | None, records: list[bytes], buffer_bytes: int
) -> None:
    path = tmp_path / "x.tfrecord"
    with OutputGroup() as group:
        writer = group.open_records(
            Location.of(path), compression, index=True, buffer_bytes=buffer_bytes
        )
        for record in records:
            writer.write(record)
    assert writer.counts == [len(records)]
    assert stream_of(path, compression) == b"".join(map(frame, records))
    assert read(path) == records
    built = tio.RecordIndex.build(path).file_bytes.tobytes()
    assert Path(f"{path}.tfidx").read_bytes() == built


def test_reading_can_start_within_a_gzip_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    rng = np.random.default_rng(0)
    records = [rng.bytes(size) for size in [200_000] * 12 + [3_000_000, 10, 10]]
    write(path, records, compression="gzip", index=True)
    points = tio.RecordIndex.load(path).seek_points
    assert points.encode() == tio.RecordIndex.build(path).seek_points.encode()
    restarts = [*zip(points.stream_offsets.tolist(), points.file_bits.tolist(), strict=True)]
    # Five records of 200,016 stream bytes fit into a MiB; the large one has its own member.
    assert [at // 200_016 for at, _ in restarts[:4]] == [0, 5, 10, 12]
    assert len(restarts) == 5
    data = path.read_bytes()
    for (_, start), (_, end) in zip(restarts, [*restarts[1:], (0, 8 * len(data))], strict=True):
        assert (
            len(gzip.decompress(data[start // 8 : end // 8])) > 0
        )  # TensorFlow stops at an empty one
    assert read(path) == records
    dataset = tio.TFRecordMapDataset(path)
    assert [dataset[number] for number in reversed(range(15))] == records[::-1]


def test_zlib_file_is_one_stream(tmp_path: Path) -> None:
    records = [os.urandom(500_000) for _ in range(6)]
    write(tmp_path / "x", records, compression="zlib", index=True)
    points = tio.RecordIndex.load(tmp_path / "x").seek_points
    assert points.stream_offsets.tolist() == [0, 1_000_032, 2_000_064]
    assert tio.TFRecordMapDataset(tmp_path / "x")[5] == records[5]
    assert zlib.decompress((tmp_path / "x").read_bytes()) == b"".join(map(frame, records))


# ---- records ----


class Message:
    def SerializeToString(self) -> bytes:  # noqa: N802  # protobuf's name
        return b"serialized"


def test_kinds_of_records(tmp_path: Path) -> None:
    example = tio.Example()
    example.features.feature["x"].int64_list.value.append(3)
    records: list[tuple[Any, bytes]] = [
        (b"plain", b"plain"),
        (bytearray(b"array"), b"array"),
        (memoryview(b"a view")[2:], b"view"),
        (memoryview(b"abcdef")[::2], b"ace"),
        (np.arange(4, dtype=np.uint8), b"\0\1\2\3"),
        ("größer", "größer".encode()),
        (Message(), b"serialized"),
        (example, example.SerializeToString()),
        ({"x": 3, "y": [b"a", b"b"]}, tio.encode_example({"x": 3, "y": [b"a", b"b"]})),
        ({}, tio.encode_example({})),
    ]
    write(tmp_path / "x", [record for record, _ in records])
    assert read(tmp_path / "x") == [wanted for _, wanted in records]


def test_records_may_change_after_write(tmp_path: Path) -> None:
    buffer = bytearray(b"before")
    features = {"x": [1, 2]}
    array = np.zeros(3, np.float32)
    with tio.TFRecordWriter(tmp_path / "x") as writer:
        for record in (buffer, memoryview(buffer), features, {"a": array}):
            writer.write(record)
        buffer[:] = b"after!"
        features["x"].append(3)
        array[:] = 1
    wanted = [tio.encode_example({"x": [1, 2]}), tio.encode_example({"a": [0.0, 0.0, 0.0]})]
    assert read(tmp_path / "x") == [b"before", b"before", *wanted]


def test_kinds_need_dicts(tmp_path: Path) -> None:
    write(tmp_path / "x", [{"x": []}, {"x": 1}], kinds={"x": "float32"})
    kinds = {"x": "float32"}
    wanted = [tio.encode_example({"x": []}, kinds), tio.encode_example({"x": 1}, kinds)]
    assert read(tmp_path / "x") == wanted
    with pytest.raises(tio.SchemaError):
        tio.TFRecordWriter(tmp_path / "y", kinds={"x": "decimal"})
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize(
    ("record", "error", "reason"),
    [
        ({"good": 1, "bad": object()}, TypeError, "feature 'bad'"),
        ({"bad": 2**70}, ValueError, "feature 'bad'"),
        ({"bad": []}, ValueError, "feature 'bad'"),
        (None, TypeError, "got NoneType"),
        (3, TypeError, "got int"),
        ([b"a"], TypeError, "got list"),
        (np.arange(3), TypeError, "got ndarray"),
        ("\ud800", ValueError, "surrogates"),
    ],
)
def test_rejected_record_leaves_nothing(
    tmp_path: Path, record: Any, error: type[Exception], reason: str
) -> None:
    with tio.TFRecordWriter(tmp_path / "x", index=True) as writer:
        writer.write(b"before")
        with pytest.raises(error, match=reason):
            writer.write(record)
        assert len(writer) == 1
        writer.write(b"behind")
    assert read(tmp_path / "x") == [b"before", b"behind"]
    assert len(tio.RecordIndex.load(tmp_path / "x")) == 2


# ---- closing and errors ----


def test_no_file_has_its_name_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    write(path, [b"old"])
    writer = tio.TFRecordWriter(path, "gzip", index=True)
    writer.write(b"new" * 200_000)
    assert read(path) == [b"old"]
    assert expand_paths(tmp_path) == [Location.of(path)]
    assert expand_paths(tmp_path / "*") == [Location.of(path)]
    assert len(os.listdir(tmp_path)) == 2
    writer.close()
    assert read(path) == [b"new" * 200_000]
    assert sorted(os.listdir(tmp_path)) == ["x.tfrecord", "x.tfrecord.tfidx"]


def test_exception_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), tio.TFRecordWriter(tmp_path / "x", index=True) as writer:
        writer.write(b"a")
        raise KeyError
    assert os.listdir(tmp_path) == []
    writer.close()  # there is nothing to do
    with pytest.raises(ValueError, match="closed"):
        writer.write(b"b")


def test_discard(tmp_path: Path) -> None:
    with tio.TFRecordWriter(tmp_path / "x") as writer:
        writer.write(b"a")
        writer.discard()
    writer.discard()
    assert os.listdir(tmp_path) == []


def test_closing_twice(tmp_path: Path) -> None:
    writer = tio.TFRecordWriter(tmp_path / "x")
    writer.write(b"a")
    writer.close()
    writer.close()
    writer.discard()
    with pytest.raises(ValueError, match=r"TFRecordWriter\('.*x', 1 record\) is closed"):
        writer.write(b"b")
    assert read(tmp_path / "x") == [b"a"]


def test_dropped_writer(tmp_path: Path) -> None:
    writer = tio.TFRecordWriter(tmp_path / "x")
    writer.write(b"a")
    held = [writer]
    del writer
    with pytest.warns(RuntimeWarning, match="was never closed; its data was discarded"):
        held.clear()
    assert os.listdir(tmp_path) == []


def test_writer_cannot_be_pickled(tmp_path: Path) -> None:
    with tio.TFRecordWriter(tmp_path / "x") as writer:
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="TFRecordWriter cannot be pickled or copied"):
                copied(writer)


def test_old_index_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write(path, [b"old"], index=True)
    write(path, [b"new"])
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("umask", [0o077, 0o000])
def test_file_mode_equals_that_of_open(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write(tmp_path / "x", [b"a"], index=True)
        (tmp_path / "y").write_bytes(b"")
    finally:
        os.umask(before)
    modes = {os.stat(tmp_path / name).st_mode for name in ("x", "x.tfidx", "y")}
    assert len(modes) == 1


# ---- invalid targets ----


@pytest.mark.parametrize("choice", ["auto", "GZIP", False])
def test_invalid_compressions(tmp_path: Path, choice: Any) -> None:
    with pytest.raises(ValueError, match=r"one of None, 'gzip', 'zlib', 'zstd', got"):
        tio.TFRecordWriter(tmp_path / "x", choice)
    assert os.listdir(tmp_path) == []


def test_targets_that_are_not_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for target, error in [
        (tmp_path, IsADirectoryError),
        (tmp_path / "none" / "x", FileNotFoundError),
        (tmp_path / "pipe", OSError),
        (Path("/dev/null"), OSError),
        (tmp_path / ("x" * 256), OSError),
    ]:
        with pytest.raises(error) as caught:
            tio.TFRecordWriter(target)
        assert caught.value.filename == str(target)
    assert os.listdir(tmp_path) == ["pipe"]


def test_longest_names(tmp_path: Path) -> None:
    name = "ü" * 100 + "x" * 49  # 255 bytes with ".tfidx"
    write(tmp_path / name, [b"a"], index=True)
    assert sorted(os.listdir(tmp_path)) == [name, name + ".tfidx"]
    write(tmp_path / f"{name}-alone", [b"b"])
    assert read(tmp_path / f"{name}-alone") == [b"b"]


def test_invalid_index_path_is_rejected_immediately(tmp_path: Path) -> None:
    (tmp_path / "x.tfidx").mkdir()
    for name, error in [("y" * 250, OSError), ("x", IsADirectoryError)]:
        with pytest.raises(error) as caught:
            tio.TFRecordWriter(tmp_path / name, index=True)
        assert caught.value.filename == str(tmp_path / f"{name}.tfidx")
    assert os.listdir(tmp_path) == ["x.tfidx"]


def test_working_directory_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(IsADirectoryError):
        tio.TFRecordWriter("")
    with tio.TFRecordWriter("x", index=True) as writer, tio.TFRecordWriter("gone") as gone:
        writer.write(b"a")
        os.chdir("other")
        gone.discard()
    assert sorted(os.listdir(tmp_path)) == ["other", "x", "x.tfidx"]
    assert read(tmp_path / "x") == [b"a"]


@pytest.mark.parametrize("call", ["writev", "fsync", "replace"])
def test_system_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    path = tmp_path / "x"
    write(path, [b"old"])
    writer = tio.TFRecordWriter(path, index=True)
    writer.write(b"new")

    def refuse(*_: object) -> None:
        raise OSError(5, "the disk is broken")

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(OSError, match="the disk is broken") as caught:
        writer.close()
    monkeypatch.undo()
    assert caught.value.filename == str(path)
    for again in (writer.close, lambda: writer.write(b"more")):
        with pytest.raises(OSError, match="an earlier write failed: the disk is broken") as caught:
            again()
        assert (caught.value.errno, caught.value.filename) == (5, str(path))
    assert os.listdir(tmp_path) == ["x"]
    assert read(path) == [b"old"]


def test_interrupted_write_is_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C, it is unknown whether a part of a record was written."""
    writer = tio.TFRecordWriter(tmp_path / "x")
    writev = os.writev

    def interrupted(descriptor: int, parts: Any) -> int:
        writev(descriptor, parts)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "writev", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer.write(b"x" * 100_000)
    monkeypatch.undo()
    with pytest.raises(OSError, match="an earlier write failed: KeyboardInterrupt"):
        writer.close()
    assert os.listdir(tmp_path) == []


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writev = os.writev

    def short(descriptor: int, parts: list[memoryview]) -> int:
        whole = b"".join(parts)
        return writev(descriptor, [whole[: max(1, len(whole) // 3)]])

    monkeypatch.setattr(os, "writev", short)
    records = [b"", b"small", b"x" * 100_000, b""]
    write(tmp_path / "x", records)
    assert (tmp_path / "x").read_bytes() == b"".join(map(frame, records))
