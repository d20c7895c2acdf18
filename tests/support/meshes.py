"""Process groups of any size in one process: their collectives do nothing."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from torch import distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore


@contextlib.contextmanager
def being_rank(rank: int, world_size: int) -> Iterator[None]:
    """Make this process one of a process group."""
    distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    try:
        yield
    finally:
        distributed.destroy_process_group()
        gc.collect()  # a mesh and its flattened slices refer to each other


def mesh_of(**sizes: int) -> DeviceMesh:
    """Return a mesh of all processes, from the sizes of its dimensions."""
    return init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
