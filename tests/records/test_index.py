"""RecordIndex: building, saving, validation, and text indexes."""

from __future__ import annotations

import gzip
import itertools
import os
import pickle
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tfrecord import frame, masked_crc, write_tfrecord
from torchrec_io import (
    CorruptRecordError,
    IndexFormatError,
    RecordIndex,
    StaleIndexError,
    TFRecordWriter,
    TorchRecIOError,
    TruncatedFileError,
)
from torchrec_io.records.index_cache import IndexSearch, cache_path, open_indexes
from torchrec_io.storage.location import Location

RECORDS = [bytes([i]) * (i * i) for i in range(40)]
OFFSETS = np.cumsum([0] + [len(r) + 16 for r in RECORDS])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.tfrecord"
    write_tfrecord(path, RECORDS)
    return path


@pytest.mark.parametrize("compression", [None, "gzip", "zlib"])
def test_build_finds_every_record(tmp_path: Path, compression: str | None) -> None:
    path = tmp_path / "data"
    write_tfrecord(path, RECORDS, compression)
    index = RecordIndex.build(path)
    assert index.compression == compression
    assert len(index) == len(RECORDS)
    assert index.offsets.tolist() == OFFSETS[:-1].tolist()
    assert index.lengths.tolist() == [len(r) for r in RECORDS]


def test_records_larger_than_the_read_window(tmp_path: Path) -> None:
    path = tmp_path / "large"
    records = [bytes(3 << 20), b"small", bytes(5 << 20), *[b"x" * 100] * 5000, bytes(2 << 20)]
    write_tfrecord(path, records)
    assert RecordIndex.build(path).lengths.tolist() == [len(r) for r in records]


def test_empty_file_and_empty_record(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert len(RecordIndex.build(tmp_path / "empty")) == 0
    write_tfrecord(tmp_path / "zero", [b"", b"a", b""])
    assert RecordIndex.build(tmp_path / "zero").lengths.tolist() == [0, 1, 0]


class TestDamagedData:
    """Damaged data files: records before the damage, then a typed error with its location."""

    def check(
        self,
        path: Path,
        content: bytes,
        error_class: type[TorchRecIOError],
        records: int,
        offset: int,
    ) -> str:
        path.write_bytes(content)
        with pytest.raises(error_class) as caught:
            RecordIndex.build(path)
        error = caught.value
        assert (error.path, error.record, error.offset) == (str(path), records, offset)
        partial, again = RecordIndex.build_partial(path)
        assert len(partial) == records
        assert str(again) == str(error)
        return str(error)

    def test_every_truncation(self, tmp_path: Path) -> None:
        whole = b"".join(map(frame, [b"abc", b"", b"defgh"]))
        starts = [0, 19, 35, len(whole)]
        for cut in range(1, len(whole)):
            if cut in starts:
                continue
            records = sum(start <= cut for start in starts[1:])
            self.check(tmp_path / "x", whole[:cut], TruncatedFileError, records, starts[records])

    def test_bad_length_crc(self, tmp_path: Path) -> None:
        broken = bytearray(frame(b"abc") * 3)
        broken[19 + 8] ^= 1
        message = self.check(tmp_path / "x", bytes(broken), CorruptRecordError, 1, 19)
        assert "length does not match" in message

    @pytest.mark.parametrize("length", [2**40, 2**62, 2**63, 2**64 - 1, 2**64 - 16, 2**63 - 12])
    def test_huge_length(self, tmp_path: Path, length: int) -> None:
        head = struct.pack("<Q", length)
        broken = frame(b"abc") + head + struct.pack("<I", masked_crc(head)) + b"data"
        self.check(tmp_path / "x", broken, TruncatedFileError, 1, 19)

    @pytest.mark.parametrize("length", [2**40, 2**63, 2**64 - 1])
    def test_huge_length_compressed(self, tmp_path: Path, length: int) -> None:
        head = struct.pack("<Q", length)
        broken = frame(b"abc") + head + struct.pack("<I", masked_crc(head)) + b"data"
        path = tmp_path / "x"
        path.write_bytes(gzip.compress(broken))
        with pytest.raises(TruncatedFileError, match="past the end"):
            RecordIndex.build(path)
        assert len(RecordIndex.build_partial(path)[0]) == 1

    def test_git_lfs_pointer(self, tmp_path: Path) -> None:
        text = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
        message = self.check(tmp_path / "x.tfrecord", text, CorruptRecordError, 0, 0)
        assert "git-lfs pointer" in message

    def test_text_and_compressed_files_read_as_plain_are_named(self, tmp_path: Path) -> None:
        assert "text" in self.check(tmp_path / "x", b"a,b,c\n1,2,3\n" * 9, CorruptRecordError, 0, 0)
        for compression in ("gzip", "zlib", "zstd"):
            with TFRecordWriter(tmp_path / compression, compression) as writer:
                writer.write(b"a")
            with pytest.raises(CorruptRecordError, match="looks compressed"):
                RecordIndex.build(tmp_path / compression, compression=None)

    def test_plain_read_as_compressed(self, data: Path) -> None:
        for kind in ("gzip", "zlib"):
            with pytest.raises(CorruptRecordError, match=f"{kind} stream is damaged"):
                RecordIndex.build(data, compression=kind)

    def test_truncated_gzip(self, tmp_path: Path) -> None:
        write_tfrecord(tmp_path / "z", RECORDS, "gzip")
        whole = (tmp_path / "z").read_bytes()
        for cut in (5, 12, len(whole) // 2, len(whole) - 4, len(whole) - 1):
            (tmp_path / "z").write_bytes(whole[:cut])
            with pytest.raises(TruncatedFileError, match="ends inside a gzip stream"):
                RecordIndex.build(tmp_path / "z")
        # Only the trailer is missing, so all records are complete.
        assert len(RecordIndex.build_partial(tmp_path / "z")[0]) == len(RECORDS)

    def test_directory_and_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(IsADirectoryError):
            RecordIndex.build(tmp_path)
        with pytest.raises(FileNotFoundError):
            RecordIndex.build(tmp_path / "missing")


class TestSaved:
    def test_round_trip(self, data: Path) -> None:
        built = RecordIndex.build(data)
        path = built.save()
        assert path == data.with_name("data.tfrecord.tfidx")
        for loaded in (RecordIndex.load(data), RecordIndex.load(path)):
            assert loaded.data_path == str(data)
            assert loaded.offsets.tolist() == built.offsets.tolist()
            assert loaded.lengths.tolist() == built.lengths.tolist()

    def test_size_is_about_four_bytes_per_record(self, tmp_path: Path) -> None:
        write_tfrecord(tmp_path / "x", [b"ab"] * 10_000)
        size = RecordIndex.build(tmp_path / "x").save().stat().st_size
        assert size < 4.1 * 10_000

    @pytest.mark.parametrize("count", [10, 20_000], ids=["in memory", "by pages"])
    def test_holds_no_descriptor(self, tmp_path: Path, count: int) -> None:
        write_tfrecord(tmp_path / "x", [b"ab"] * count)
        RecordIndex.build(tmp_path / "x").save()
        before = len(os.listdir("/proc/self/fd"))
        index = RecordIndex.load(tmp_path / "x")
        again = pickle.loads(pickle.dumps(index))
        assert len(os.listdir("/proc/self/fd")) == before
        assert index.offsets.tolist() == again.offsets.tolist() == list(range(0, 18 * count, 18))
        del index
        assert again.lengths.tolist() == [2] * count

    def test_pickling_with_and_without_a_file(self, data: Path) -> None:
        built = RecordIndex.build(data)
        assert pickle.loads(pickle.dumps(built)).offsets.tolist() == built.offsets.tolist()
        built.save()
        loaded = RecordIndex.load(data)
        dumped = pickle.dumps(loaded)
        assert len(dumped) < 900  # the name of the file, not its content
        assert pickle.loads(dumped).offsets.tolist() == built.offsets.tolist()
        write_tfrecord(data, RECORDS[:5])
        RecordIndex.build(data).save()
        again = pickle.loads(dumped)
        assert len(again) == len(RECORDS)
        with pytest.raises(StaleIndexError, match="replaced"):
            len(again.offsets)

    def test_every_damaged_byte_is_rejected(self, data: Path) -> None:
        path = RecordIndex.build(data).save()
        whole = path.read_bytes()
        for at in range(len(whole)):
            broken = bytearray(whole)
            broken[at] ^= 0x10
            path.write_bytes(broken)
            with pytest.raises(IndexFormatError, match="damaged"):
                RecordIndex.load(data)

    def test_every_truncation_and_extension_is_rejected(self, data: Path) -> None:
        path = RecordIndex.build(data).save()
        whole = path.read_bytes()
        for content in [whole[:cut] for cut in range(len(whole))] + [whole + b"\0", whole * 2]:
            path.write_bytes(content)
            with pytest.raises(IndexFormatError):
                RecordIndex.load(data)


class TestStale:
    def save(self, data: Path) -> None:
        RecordIndex.build(data).save()

    def test_different_size(self, data: Path) -> None:
        self.save(data)
        write_tfrecord(data, RECORDS[:-1])
        with pytest.raises(StaleIndexError, match="bytes"):
            RecordIndex.load(data)

    def test_same_size_with_different_content(self, data: Path) -> None:
        self.save(data)
        stat = data.stat()
        content = bytearray(data.read_bytes())
        content[-20] ^= 1
        data.write_bytes(content)
        os.utime(data, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # the time does not show the change
        with pytest.raises(StaleIndexError, match="content"):
            RecordIndex.load(data)

    def test_changed_records_in_the_middle_of_a_large_file(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        write_tfrecord(path, [bytes(1000)] * 400)
        self.save(path)
        middle = [bytes(1000)] * 100 + [bytes(992), bytes(1008)] * 100 + [bytes(1000)] * 100
        write_tfrecord(path, middle)  # same size, start and end
        os.utime(path, ns=(1, 1))
        with pytest.raises(StaleIndexError, match="no record of that size"):
            RecordIndex.load(path)

    def test_a_copy_is_not_stale(self, data: Path, tmp_path: Path) -> None:
        self.save(data)
        copy = tmp_path / "copy"
        shutil.copyfile(data, copy)
        os.utime(copy, ns=(5, 5))
        assert len(RecordIndex.load(str(data) + ".tfidx", copy)) == len(RECORDS)


class TestText:
    def test_round_trip(self, data: Path, tmp_path: Path) -> None:
        built = RecordIndex.build(data)
        text = built.to_text(tmp_path / "data.tfrecord.idx")
        lines = [f"{a} {b - a}" for a, b in itertools.pairwise(OFFSETS)]
        assert text.read_text().splitlines() == lines
        for index in (RecordIndex.from_text(text, data), RecordIndex.load(text)):
            assert index.offsets.tolist() == built.offsets.tolist()
            assert index.lengths.tolist() == built.lengths.tolist()

    @pytest.mark.parametrize(
        "garbage",
        [
            "hello\n", "0\n", "0 1 2\n", "0 -19\n", "a 19\n", "0 19\n\n", "0 1_9\n", "0 19.0\n",
            "5 19\n", "0 15\n", "0 19\n18 19\n", "0 19\n20 19\n", "0 " + "9" * 30 + "\n",
            "0 \u0661\u0669\n", "\0\0\0\0",
        ],
    )  # fmt: skip
    def test_garbage_is_rejected_with_its_line(self, tmp_path: Path, garbage: str) -> None:
        write_tfrecord(tmp_path / "d", [b"abc", b"abc"])
        (tmp_path / "d.idx").write_text(garbage, "utf-8")
        with pytest.raises(IndexFormatError, match=r"line \d+ of the index"):
            RecordIndex.load(tmp_path / "d.idx")

    def test_index_of_another_file(self, data: Path, tmp_path: Path) -> None:
        other = tmp_path / "other"
        write_tfrecord(other, [b"x" * len(b"".join(RECORDS))])
        text = RecordIndex.build(data).to_text(tmp_path / "i.idx")
        with pytest.raises(StaleIndexError, match="another file"):
            RecordIndex.from_text(text, other)
        same_size = list(RECORDS)
        same_size[3], same_size[9] = same_size[9], same_size[3]
        write_tfrecord(other, same_size)
        with pytest.raises(StaleIndexError, match="no record of that size"):
            RecordIndex.from_text(text, other)

    @given(st.binary(max_size=60))
    def test_any_bytes_are_an_index_or_a_typed_error(
        self, tmp_path_factory: pytest.TempPathFactory, content: bytes
    ) -> None:
        folder = tmp_path_factory.mktemp("text")
        write_tfrecord(folder / "d", [b"abc"])
        (folder / "d.idx").write_bytes(content)
        try:
            index = RecordIndex.from_text(folder / "d.idx", folder / "d")
        except (IndexFormatError, StaleIndexError):
            return
        assert index.offsets.tolist() == [0]


class TestFinding:
    def test_sidecar_precedes_cache_precedes_new_index(
        self, data: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        built, _ = IndexSearch(Location.of(data)).find_or_build()
        assert built.index_path == str(cache_path(data))
        assert sorted(os.listdir(data.parent)) == ["data.tfrecord"]  # no file next to the data

        def no_scan(*_: object, **__: object) -> None:
            raise AssertionError("built again")

        monkeypatch.setattr(RecordIndex, "build_partial", no_scan)
        assert IndexSearch(Location.of(data)).find_or_build()[0].index_path == str(cache_path(data))
        built.save()
        assert IndexSearch(Location.of(data)).find_or_build()[0].index_path == str(data) + ".tfidx"

    def test_a_stale_or_damaged_sidecar_is_ignored(self, data: Path) -> None:
        sidecar = RecordIndex.build(data).save()
        write_tfrecord(data, RECORDS[:3])
        assert len(IndexSearch(Location.of(data)).find_or_build()[0]) == 3
        sidecar.write_bytes(b"garbage")
        assert len(IndexSearch(Location.of(data)).find_or_build()[0]) == 3
        assert sidecar.read_bytes() == b"garbage"  # it belongs to the user

    def test_unreadable_indexes_are_ignored(
        self, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Path(f"{data}.tfidx").mkdir()
        (tmp_path / "file").touch()
        monkeypatch.setenv("TORCHREC_IO_CACHE", str(tmp_path / "file"))
        index, error = IndexSearch(Location.of(data)).find_or_build()
        assert (len(index), index.index_path, error) == (len(RECORDS), None, None)

    def test_index_of_a_damaged_file_is_not_saved(self, data: Path) -> None:
        data.write_bytes(data.read_bytes()[:-3])
        index, error = IndexSearch(Location.of(data)).find_or_build()
        assert len(index) == len(RECORDS) - 1
        assert isinstance(error, TruncatedFileError)
        assert not cache_path(data).exists()

    def test_links_to_one_file_share_its_index(self, data: Path, tmp_path: Path) -> None:
        (tmp_path / "to_file").symlink_to(data)
        (tmp_path / "to_folder").symlink_to(data.parent)
        for name in ("to_file", "to_folder/data.tfrecord", "to_folder/to_file"):
            assert cache_path(tmp_path / name) == cache_path(data)


def located(paths: list[str]) -> list[Location]:
    return [Location.of(path) for path in paths]


class TestOpeningMany:
    @pytest.fixture
    def paths(self, tmp_path: Path) -> list[str]:
        """Write files of 0, 1, ... records. Every third has a sidecar index."""
        paths = [str(tmp_path / f"{number}") for number in range(100)]
        for number, path in enumerate(paths):
            write_tfrecord(path, RECORDS[: number % 40])
            if number % 3 == 0:
                RecordIndex.build(path).save()
        return paths

    def test_each_file_gets_its_own(self, paths: list[str]) -> None:
        for _ in range(2):  # built, then cached
            indexes, errors = open_indexes(located(paths), "auto", "auto")
            assert errors == []
            assert [index.data_path for index in indexes] == paths
            assert [len(index) for index in indexes] == [i % 40 for i in range(100)]

    def test_damage_is_reported_in_order(self, paths: list[str]) -> None:
        for number in (70, 4, 33):
            os.truncate(paths[number], os.path.getsize(paths[number]) - 1)
        indexes, errors = open_indexes(located(paths), "auto", "auto")
        assert [error.path for error in errors] == [paths[number] for number in (4, 33, 70)]
        assert len(indexes[4]) == 3

    def test_given_indexes(self, paths: list[str]) -> None:
        names = [RecordIndex.build(path).save(path + ".mine.tfidx") for path in paths]
        indexes, errors = open_indexes(located(paths), names, "auto")
        assert errors == []
        assert [index.index_path for index in indexes] == [str(name) for name in names]
        (one,), _ = open_indexes(located(paths[5:6]), names[5], "auto")
        assert len(one) == 5
        with pytest.raises(StaleIndexError):
            open_indexes(located(paths[5:6]), names[6], "auto")

    def test_invalid_choices_are_rejected(self, paths: list[str]) -> None:
        with pytest.raises(ValueError, match="'auto', a path or a list of paths"):
            open_indexes(located(paths), None, "auto")  # type: ignore[arg-type]
        with pytest.raises(
            ValueError, match="index must have 100 paths, one for each data file, got 1"
        ):
            open_indexes(located(paths), paths[0], "auto")
        with pytest.raises(FileNotFoundError):
            open_indexes(located([*paths, "/no/such/file"]), "auto", "auto")
