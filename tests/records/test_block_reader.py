"""BlockReader: the number of blocks in memory. What it reads is in tests/datasets and contract."""

from __future__ import annotations

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


@pytest.mark.parametrize("keep", [1, 2, 5])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_number_of_blocks_in_memory_is_limited(
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
    reader = RecordReader([RecordIndex.build(path)])
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
