"""Frames of records that native code refuses."""

from __future__ import annotations

import numpy as np
import pytest

from torchrec_io import _core


@pytest.mark.parametrize(
    ("starts", "sizes", "reason"),
    [
        ([0, 1], [16], "a start and a size"),
        ([-1], [16], "must lie in the buffer"),
        ([0], [15], "must lie in the buffer"),
        ([2**63 - 8], [16], "must lie in the buffer"),
    ],
)
def test_frames_that_cannot_be(starts: list[int], sizes: list[int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        _core.ReadPlan.of_frames(np.array(starts), np.array(sizes))


def test_frames_past_the_end_of_their_buffer() -> None:
    buffer = np.zeros(31, np.uint8)
    plan = _core.ReadPlan.of_frames(np.array([0, 15]), np.array([16, 17]))
    assert plan.buffer_bytes == 32
    records = _core.Records(buffer, np.array([0]), np.array([1]))
    with pytest.raises(ValueError, match="smaller than the plan requires"):
        _core.BatchReads.of_buffer(plan, buffer, records)
