"""Ranks in a mesh of processes, of which only some dimensions divide the data."""

from __future__ import annotations

import gc
import math
import re
import sys
from typing import Any, NamedTuple

# Words in names of dimensions that divide the data: those of PyTorch's tutorials ("dp",
# "dp_replicate", "dp_shard") and of trainers ("data_parallel", "fsdp", "batch").
_DATA_PARALLEL = frozenset(["dp", "ddp", "fsdp", "hsdp", "data", "batch", "replicate", "shard"])
# Words in names of dimensions whose processes read the same records.
_SAME_RECORDS = frozenset(
    ["tp", "pp", "cp", "sp", "mp", "tensor", "pipeline", "context", "sequence", "model"]
)


class MeshRank(NamedTuple):
    """The rank of this process among those that divide the data, and their number."""

    rank: int
    world_size: int


class _Dimension(NamedTuple):
    """A dimension of a mesh that has several processes.

    Attributes:
        name: Its name; None if the mesh has no names.
        size: Number of processes.
    """

    name: str | None
    size: int

    @property
    def words(self) -> set[str]:
        """The words of the name, without "parallel"."""
        return set(re.findall("[a-z]+", (self.name or "").lower())) - {"parallel"}

    @property
    def divides_data(self) -> bool:
        """Whether the name is that of a dimension that divides the data."""
        return bool(self.words) and self.words <= _DATA_PARALLEL

    @property
    def has_same_records(self) -> bool:
        """Whether the name is that of a dimension in which processes read the same records."""
        return not self.words.isdisjoint(_SAME_RECORDS)


def find_mesh_rank(mesh: Any) -> MeshRank:
    """Return the rank of this process in a mesh, row by row over its coordinates.

    Args:
        mesh: A ``DeviceMesh`` whose dimensions all divide the data, or a ``ProcessGroup``.

    Raises:
        ValueError: If it is neither, a dimension of it does not divide the data, or this process is
            not in it.
    """
    distributed = _distributed()
    if distributed is not None and isinstance(mesh, _device_mesh_type()):
        dimensions = _dimensions_of(mesh)
        if any(each.has_same_records for each in dimensions):
            raise ValueError(
                "mesh must have only dimensions that divide the data, got a DeviceMesh of "
                f"{_text_of(dimensions)}: {_advice(dimensions)}"
            )
        rank, size = _row_major_rank(mesh), math.prod(mesh.shape)
    elif distributed is not None and _is_group(distributed, mesh):
        rank, size = distributed.get_rank(mesh), distributed.get_world_size(mesh)
    else:
        raise ValueError(
            "mesh must be a DeviceMesh or a ProcessGroup of torch.distributed, or None, got "
            f"{mesh!r}"
        )
    if rank < 0:
        raise ValueError(
            f"mesh must contain this process, but rank {distributed.get_rank()} of "
            f"{distributed.get_world_size()} is not in {mesh!r}: it has no share of the records"
        )
    return MeshRank(rank, size)


def _row_major_rank(mesh: Any) -> int:
    """Return the rank of this process in a ``DeviceMesh``; -1 if it is not in it."""
    coordinate, rank = mesh.get_coordinate(), 0
    if coordinate is None:
        return -1
    for position, size in zip(coordinate, mesh.shape, strict=True):
        rank = rank * size + position
    return rank


def _is_group(distributed: Any, mesh: Any) -> bool:
    # new_group() returns another object to processes that are not in the group.
    is_other = mesh is distributed.GroupMember.NON_GROUP_MEMBER
    return is_other or isinstance(mesh, distributed.ProcessGroup)


def divides_data(mesh: Any) -> bool:
    """Return whether all dimensions of a ``DeviceMesh`` have names of those that divide data."""
    return all(each.divides_data for each in _dimensions_of(mesh))


def find_mesh_problem() -> str | None:
    """Return why the global rank does not say which records a process reads; None if it does.

    It does not if the program has a mesh with a dimension that does not divide the data. Meshes
    have no public list, so the objects of the garbage collector are searched: those that are frozen
    (``gc.freeze``) are not found.
    """
    if _problem_of_meshes() is None:
        return None
    gc.collect()  # meshes that are no longer used, as of an earlier process group
    return _problem_of_meshes()


def _problem_of_meshes() -> str | None:
    distributed = _distributed()
    if distributed is None or not distributed.is_initialized():
        return None
    world_size = distributed.get_world_size()
    others = []
    for dimensions in _live_dimensions():
        is_world = math.prod(each.size for each in dimensions) == world_size
        if all(each.divides_data for each in dimensions):
            if is_world:
                return None  # other meshes are other views of the same ranks
        elif not (is_world and _is_plain(dimensions)):
            others.append(dimensions)
    if not others:
        return None
    dimensions = max(others, key=lambda each: (math.prod(one.size for one in each), len(each)))
    return (
        f"this program has a DeviceMesh of {_text_of(dimensions)}, so rank "
        f"{distributed.get_rank()} of {world_size} does not say which records this process reads: "
        f"{_advice(dimensions)}"
    )


def _is_plain(dimensions: list[_Dimension]) -> bool:
    """Return whether dimensions are one without a meaning, as for all processes."""
    return len(dimensions) == 1 and dimensions[0].name in (None, "world")


def _live_dimensions() -> list[list[_Dimension]]:
    """Return the dimensions of the meshes of the program that contain this process."""
    device_mesh = _device_mesh_type()
    # Objects refer to their type. isinstance() would ask other objects for attributes.
    live = [each for each in gc.get_referrers(device_mesh) if type(each) is device_mesh]
    try:
        return [_dimensions_of(mesh) for mesh in live if mesh.get_coordinate() is not None]
    except (AttributeError, RuntimeError):  # meshes without a backend, or of another torch
        return []


def _distributed() -> Any:
    """Return ``torch.distributed`` if the program uses it, without importing it."""
    module: Any = sys.modules.get("torch.distributed")
    return None if module is None or not module.is_available() else module


def _device_mesh_type() -> type[Any]:
    """Return the class of meshes; another class if the program has none."""
    module = sys.modules.get("torch.distributed.device_mesh")
    return getattr(module, "DeviceMesh", _NoMesh)


class _NoMesh:
    """Class of no object."""


def _dimensions_of(mesh: Any) -> list[_Dimension]:
    names = mesh.mesh_dim_names or [None] * len(mesh.shape)
    pairs = zip(names, mesh.shape, strict=True)
    return [_Dimension(name, size) for name, size in pairs if size > 1]


def _text_of(dimensions: list[_Dimension]) -> str:
    return ", ".join(f"{each.name or 'no name'}={each.size}" for each in dimensions)


def _advice(dimensions: list[_Dimension]) -> str:
    """Return what to write for a mesh with dimensions that may not divide the data."""
    names = [each.name for each in dimensions if each.divides_data]
    if names:
        remedy = f"write mesh=mesh[{', '.join(map(repr, names))}] in the dataset"
    elif all(each.words and each.words <= _SAME_RECORDS for each in dimensions):
        remedy = "write rank=0, world_size=1 in the dataset, as all processes read the same records"
    else:
        remedy = "write mesh=mesh[...] with the dimensions that divide the data in the dataset"
    return f"{remedy}; or rank=... and world_size=... of its share"
