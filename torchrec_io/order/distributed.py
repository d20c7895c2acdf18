"""Which of how many training processes this one is."""

from __future__ import annotations

import os
import sys


def resolve_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Rank and world size: as given, else torch.distributed's, else torchrun's, else one process.

    Torch is asked only if it is loaded and its process group is initialised. ``RANK`` and
    ``WORLD_SIZE`` are what torchrun sets.

    Raises:
        ValueError: only one of the two is given, or the rank is not in ``0..world_size-1``.
    """
    if (rank is None) != (world_size is None):
        raise ValueError("give both rank and world_size, or neither")
    if rank is None or world_size is None:
        rank, world_size = _from_torch() or _from_environment() or (0, 1)
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must be in 0..{world_size - 1}, not {rank}")
    return rank, world_size


def _from_torch() -> tuple[int, int] | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _from_environment() -> tuple[int, int] | None:
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return None
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
