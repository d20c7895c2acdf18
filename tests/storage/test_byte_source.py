"""Files that change while they are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.tfrecord import write_tfrecord
from torchrec_io import RecordIndex, TruncatedFileError
from torchrec_io._storage.local import LocalFile


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
