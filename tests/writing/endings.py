"""Programs that ``test_endings.py`` runs in separate processes: writers that share names or space.

Each function takes a folder, and raises an exception if it fails.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from torchrec_io._records.index import RecordIndex
from torchrec_io._records.index_file import SUFFIX
from torchrec_io._records.sequential import iter_records
from torchrec_io._storage.compression import Compression
from torchrec_io._storage.location import Location
from torchrec_io._storage.paths import expand_paths
from torchrec_io._writing.record_writer import TFRecordWriter, Writer
from torchrec_io._writing.shards import ShardedWriter, shard_path

OLD = [b"old %d" % number for number in range(30)]
NEW = [b"new %d" % number for number in range(30)]  # files of the same size


def read(path: str) -> list[bytes]:
    return [record for _, record in iter_records(path)]


def in_child(work: Callable[[], object]) -> int:
    """Run work in a forked process that ends like a program. Return its wait status."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    work()
    sys.exit(0)


def write_all(writer: Writer, records: list[bytes]) -> None:
    with writer:
        for record in records:
            writer.write(record)


def check_index(path: str) -> None:
    """Check that an index matches its file, byte by byte."""
    with suppress(FileNotFoundError):
        beside = Path(path + SUFFIX).read_bytes()
        assert beside == RecordIndex.build(path).file_bytes.tobytes()


# ---- two writers ----


def two_writers(folder: Path) -> None:
    """Two processes write shards of the same names, again and again."""
    name = folder / "x"
    paths = [shard_path(name, shard, 3) for shard in range(3)]
    for _ in range(20):
        child = os.fork()
        if not child:
            for _ in range(5):
                write_all(ShardedWriter(name, 3, index=True), OLD)
            os._exit(0)
        for _ in range(5):
            write_all(ShardedWriter(name, 3, index=True), NEW)
        assert os.waitpid(child, 0)[1] == 0
        assert expand_paths(folder) == [Location.of(path) for path in paths]
        assert sorted(os.listdir(folder)) == sorted([*paths_of(paths), *paths_of(paths, SUFFIX)])
        assert [read(path) for path in paths] in (
            [records[shard::3] for shard in range(3)] for records in (OLD, NEW)
        )
        for path in paths:
            check_index(path)


def paths_of(paths: list[str], suffix: str = "") -> list[str]:
    return [os.path.basename(path) + suffix for path in paths]


# ---- forked processes ----


def refused(call: Callable[[], object]) -> None:
    try:
        call()
    except RuntimeError as error:
        assert "was opened in another process; open one in each" in str(error)  # noqa: PT017
    else:
        raise AssertionError("not refused")


def children(writer: Writer) -> Iterator[Callable[[], object]]:
    """Yield actions of a child on its parent's writer."""

    def leave_by_exception() -> None:
        with suppress(KeyError), writer:
            raise KeyError

    yield lambda: None  # only ends, including exit handlers
    yield lambda: refused(lambda: writer.write(b"child's"))
    yield lambda: refused(writer.close)
    yield writer.discard
    yield writer.__del__
    yield leave_by_exception


def forked(folder: Path) -> None:
    path = str(folder / "x")
    makes: list[Callable[[], Writer]] = [
        lambda: TFRecordWriter(path, "gzip", index=True),
        lambda: ShardedWriter(path, 1, index=True),
    ]
    for make, written in zip(makes, [path, path + "-00000-of-00001"], strict=True):
        writer = make()
        writer.write(b"before")
        count = 0
        for child in children(writer):
            assert in_child(child) == 0
            writer.write(b"parent's")
            count += 1
        writer.close()
        assert count == 6
        assert read(written) == [b"before", *[b"parent's"] * count]


# ---- full file systems ----


def fill(folder: Path, free: int) -> None:
    """Fill the file system except for some bytes."""
    with open(folder / "filler", "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
        file.truncate(file.tell() - free)


def is_full(error: OSError, path: str) -> bool:
    name = str(error.filename)
    return error.errno == errno.ENOSPC and name.removesuffix(SUFFIX).startswith(path)


def run_full(folder: Path, writer: Writer, records: list[bytes], at: str) -> None:
    """Write to a file system that must become full in write() or close()."""
    path = str(folder / "x")
    failed = ""
    try:
        for record in records:
            writer.write(record)
    except OSError as error:
        assert is_full(error, path), error  # noqa: PT017
        failed = "write"
    else:
        try:
            writer.close()
        except OSError as error:
            assert is_full(error, path), error  # noqa: PT017
            failed = "close"
    assert failed == at, (failed, at, writer)
    assert os.listdir(folder) == ["filler"], os.listdir(folder)
    for again in (writer.close, lambda: writer.write(b"more")):
        try:
            again()
        except OSError as error:
            assert is_full(error, path), error  # noqa: PT017
        else:
            raise AssertionError("a writer that gave up goes on")
    writer.discard()
    writer.close()


def full(folder: Path) -> None:
    """Test writers in ``folder``, which must be a small file system."""
    fitting = os.urandom(16_000)
    noise = [os.urandom(1000) for _ in range(500)]
    path = folder / "x"
    choices: tuple[Compression | None, ...] = (None, "gzip", "zlib")
    for compression in choices:
        options: dict[str, Any] = {"compression": compression, "index": True}
        for make in (
            lambda options=options: TFRecordWriter(path, **options),
            lambda options=options: ShardedWriter(path, 3, **options),
            lambda options=options: ShardedWriter(path, max_bytes=50_000, **options),
        ):
            fill(folder, 1 << 15)
            run_full(folder, make(), noise * 8, "write")
            # close() writes the remaining data.
            run_full(folder, make(), noise[:40], "close")
        # The data fits exactly, the index does not.
        fill(folder, 1 << 14)
        run_full(folder, TFRecordWriter(path, compression, index=True), [fitting], "close")
        with TFRecordWriter(path, compression) as writer:
            writer.write(fitting)
        path.unlink()


if __name__ == "__main__":
    works = (two_writers, forked, full)
    {work.__name__: work for work in works}[sys.argv[1]](Path(sys.argv[2]))
