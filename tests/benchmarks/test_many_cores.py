"""The figures of an epoch of images."""

from __future__ import annotations

import torch

from benchmarks.many_cores import Use, use_of


def test_images_and_bytes_of_columns_of_one_size_and_of_different_sizes() -> None:
    same = torch.zeros(2, 4, 4, 3, dtype=torch.uint8)
    different = [torch.zeros(4, size, 3, dtype=torch.uint8) for size in (5, 6, 7)]
    use = use_of([{"image": same}, {"image": different}])
    assert (use.images, use.bytes) == (5, 2 * 48 + 12 * (5 + 6 + 7))


def test_shares() -> None:
    use = Use(1, 100, 1.0, cpu_seconds=4.0, consumer_seconds=1.0, fresh_bytes=92)
    assert (use.consumer_share, use.fresh_share) == (0.25, 0.92)
