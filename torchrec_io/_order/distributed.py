"""Rank and world size of this training process."""

from __future__ import annotations

import os
import sys

from ..checks import check_integer


def resolve_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return the rank of this process and the number of ranks.

    Explicit values come first, then those of ``torch.distributed`` if its process group is
    initialized, then the environment variables ``RANK`` and ``WORLD_SIZE`` that torchrun sets, then
    ``(0, 1)``. Torch is not imported for this.

    Raises:
        ValueError: If only one of the two is given, or the rank is not in ``0..world_size-1``.
    """
    if (rank is None) != (world_size is None):
        raise ValueError("rank and world_size must be given together, or neither of them")
    if rank is None or world_size is None:
        rank, world_size = _from_torch() or _from_environment() or (0, 1)
    check_integer("world_size", world_size, 1)
    return check_integer("rank", rank, 0, world_size - 1), world_size


def rank_source(rank: int | None, *, has_mesh: bool = False) -> str:
    """Return the name of the source that :func:`resolve_rank` takes the rank from.

    Args:
        rank: Explicit rank, if there is one.
        has_mesh: Whether that is the rank in a mesh.
    """
    if has_mesh:
        return "of its mesh"
    if rank is not None:
        return "as given"
    return "of torch.distributed" if _from_torch() else "of torchrun's environment"


def _from_torch() -> tuple[int, int] | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _from_environment() -> tuple[int, int] | None:
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return None
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
