"""The shuffle of a stream: memory follows its window, not the files. The order is in contract/."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from tests.support.tfrecord import write_tfrecord
from torchrec_io import TFRecordStream


def test_memory_is_proportional_to_the_window(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "x", [bytes(1000)] * 20_000)
    tracemalloc.start()
    try:
        stream = TFRecordStream(path, batch_size=50, shuffle=100, num_threads=1)
        assert sum(map(len, stream)) == 20_000
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
