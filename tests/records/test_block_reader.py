"""BlockReader: the blocks in memory. What it reads is in tests/datasets and contract."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.tfrecord import write_tfrecord
from torchrec_io import RecordIndex
from torchrec_io._records.block_reader import BlockReader
from torchrec_io._records.record_reader import ReadPlan, RecordReader
from torchrec_io._storage.chunk_cache import process_cache


@pytest.mark.parametrize(("compression", "keep"), [(None, 1), ("gzip", 2), (None, 5)])
def test_blocks_in_memory_are_limited_and_not_shared_with_children(
    tmp_path: Path, compression: str | None, keep: int
) -> None:
    buffers: list[weakref.ref[Any]] = []
    alive: list[int] = []

    class Watched(BlockReader):
        def read(self, plan: ReadPlan) -> npt.NDArray[np.uint8]:
            buffer = super().read(plan)
            buffers.append(weakref.ref(buffer))
            alive.append(sum(ref() is not None for ref in buffers))
            return buffer

    path = write_tfrecord(tmp_path / "x", [b"%d" % number for number in range(100)], compression)
    reader = RecordReader([RecordIndex.build(path)], cache_bytes=12345)
    blocks = Watched(
        reader,
        lambda numbers: numbers // 7,
        lambda block: np.arange(block * 7, min(block * 7 + 7, 100)),
        keep,
    )
    for number in np.random.default_rng(0).integers(0, 100, 200).tolist():
        block, errors = blocks.fetch(blocks.plan(np.array([number])))
        assert ([block[0]], errors) == ([b"%d" % number], [])
        del block
    assert sum(ref() is not None for ref in buffers) == keep == max(alive)
    # They count within the memory for decoded data.
    assert (blocks in process_cache(12345)._holders) == (compression is not None)
    with blocks._lock:  # as if another thread held it
        child = os.fork()
        if child == 0:
            os._exit(blocks.fetch(blocks.plan(np.array([50])))[0][0] != b"50")
    assert os.waitpid(child, 0)[1] == 0
