"""Local files."""

from __future__ import annotations

import os
import sys
import tempfile

import pytest

import torchrec_io as tio


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
