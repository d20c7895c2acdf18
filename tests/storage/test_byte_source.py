"""Byte sources with and without descriptors, and files that change while they are read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.support.tfrecord import write_tfrecord
from torchrec_io import RecordIndex, TruncatedFileError
from torchrec_io._storage.byte_source import ByteSource
from torchrec_io._storage.local import LocalFile
from torchrec_io._storage.several_sources import descriptors_of, read_ranges


class MemorySource(ByteSource):
    """A source with only the required interface."""

    size = 6

    def read_into(self, offset: int, out: memoryview) -> int:
        part = b"abcdef"[offset : offset + len(out)]
        out[: len(part)] = part
        return len(part)

    def close(self) -> None:
        pass


def test_sources_with_and_without_descriptors(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    local, memory = LocalFile(tmp_path / "x"), MemorySource()
    assert descriptors_of([local, local]) == [local.descriptor] * 2
    assert descriptors_of([local, memory]) is None
    out = np.zeros(7, np.uint8)
    ranges = np.array([(8, 2, 0), (0, 3, 2), (4, 2, 5)])
    assert read_ranges([local, memory], [0, 1, 3], ranges, out) is None
    assert out.tobytes() == b"89abcef"
    ranges[2] = (5, 2, 5)
    assert read_ranges([local, memory], [0, 1, 3], ranges, out) == 2


def test_file_that_shrinks_during_a_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tfrecord(tmp_path / "x", [b"abc", bytes(100)])
    size = LocalFile.size.fget(LocalFile(path))  # type: ignore[attr-defined]
    sizes = iter([size, 60, 60])
    os.truncate(path, 60)
    monkeypatch.setattr(LocalFile, "size", property(lambda _: next(sizes)))
    found = RecordIndex.build(path, allow_damage=True)
    error = found.damage
    assert found.offsets.tolist() == [0]
    assert isinstance(error, TruncatedFileError)
    assert (error.record, error.offset) == (1, 19)
