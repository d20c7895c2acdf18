"""Programs that ``test_endings.py`` runs in separate processes: writers that share names.

Each function takes a folder, and raises an exception if it fails.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from torchrec_io._records.index import RecordIndex
from torchrec_io._records.index_file import SUFFIX
from torchrec_io._records.sequential import iter_records
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


if __name__ == "__main__":
    works = (two_writers, forked)
    {work.__name__: work for work in works}[sys.argv[1]](Path(sys.argv[2]))
