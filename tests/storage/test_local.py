"""Local files."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import torchrec_io as tio
from torchrec_io import _core
from torchrec_io._storage.local import LocalFile

_DATA = bytes(range(200))


@pytest.mark.parametrize(
    ("cuts", "ranges", "error"),
    [
        ([0], [(0, 1, 0)], "one more entry"),
        ([0, 1, 1], [(0, 1, 0)], "one more entry"),
        ([0, 2], [(0, 1, 0)], "bounds must"),
        ([-1, 1], [(0, 1, 0)], "bounds must"),
        ([1, 0], [(0, 1, 0)], "bounds must"),
        ([0, 1], [(0, 21, 0)], "inside"),
        ([0, 1], [(0, 1, 20)], "inside"),
        ([0, 1], [(0, 1, -1)], "inside"),
        ([0, 1], [(-1, 1, 0)], "negative"),
        ([0, 1], [(0, 1)], "three columns"),
    ],
)
def test_reads_outside_the_file_are_rejected(
    tmp_path: Path, cuts: list[int], ranges: list[tuple[int, ...]], error: str
) -> None:
    (tmp_path / "x").write_bytes(_DATA)
    file = LocalFile(tmp_path / "x")
    out = np.zeros(20, np.uint8)
    assert file.descriptor is not None
    with pytest.raises(ValueError, match=error):
        _core.read_ranges([file.descriptor], cuts, np.array(ranges, np.int64), out)
    assert not out.any()


def test_gathering_between_buffers_and_inside_one() -> None:
    source = np.arange(20, dtype=np.uint8)
    target = np.zeros(10, np.uint8)
    _core.gather(source, np.array([(15, 5, 0), (0, 2, 8), (20, 0, 10)]), target)
    assert target.tolist() == [15, 16, 17, 18, 19, 0, 0, 0, 0, 1]
    _core.gather(source, np.array([(2, 8, 0), (12, 8, 8)]), source)
    assert source[:16].tolist() == [*range(2, 10), *range(12, 20)]
    for outside in [(16, 5, 0), (-1, 1, 0), (0, 1, 10), (0, 5, -1), (0, -1, 0), (0, 2**62, 0)]:
        with pytest.raises(ValueError, match=r"inside|negative"):
            _core.gather(source, np.array([outside]), target)
    with pytest.raises(ValueError, match="three columns"):
        _core.gather(source, np.zeros((1, 2), np.int64), target)


@pytest.mark.parametrize("year", [1600, 4000])
def test_times_that_nanoseconds_do_not_hold(year: int) -> None:
    """Not every file system keeps such times; that in memory does."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if sys.platform == "linux" else None) as folder:
        path = os.path.join(folder, "a.tfrecord")
        with tio.TFRecordWriter(path) as writer:
            writer.write(b"x")
        time = int((year - 1970) * 365.25 * 86400) * 10**9
        os.utime(path, ns=(time, time))
        for _ in range(2):  # the second time with the index in the cache
            assert list(tio.TFRecordDataset(path)) == [b"x"]
        assert tio.TFRecordMapDataset(path)[0] == b"x"
        assert list(tio.TFRecordStream(path)) == [b"x"]
