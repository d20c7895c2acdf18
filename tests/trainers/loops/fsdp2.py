"""A loop with FSDP2, and with checkpoints of torch.distributed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.trainers.cells import EPOCHS, Cell
from tests.trainers.data import Numbers, make_loader, open_dataset

_PEERS = ("pp", "tp")  # dimensions whose processes read the same records


def run(cell: Cell, paths: list[str], numbers: Numbers) -> None:
    """Run a loop, and note the records."""
    mesh = _init_mesh({"dp": cell.world_size})
    step = _training_step(mesh)[1]
    loader = make_loader(cell, open_dataset(cell, paths, mesh=mesh))
    for _ in range(EPOCHS):
        numbers.begin()
        for batch in loader:
            numbers.add(batch["id"])
            step(batch)
    dist.destroy_process_group()


def run_resumably(
    cell: Cell,
    paths: list[str],
    numbers: Numbers,
    *,
    folder: str,
    sizes: Mapping[str, int],
    batch_size: int,
    save_at: Sequence[int] = (),
    resume_at: int | None = None,
) -> None:
    """Run a loop on a mesh that saves checkpoints after some steps, or that continues one.

    Args:
        cell: The cell.
        paths: Paths of the data.
        numbers: Notes the records.
        folder: Folder of the checkpoints.
        sizes: Sizes of the mesh's dimensions, by name.
        batch_size: Batch size of a process.
        save_at: Numbers of the steps after which a checkpoint is saved.
        resume_at: Step after which the checkpoint was saved that is loaded.
    """
    mesh = _init_mesh(sizes)
    data_mesh = mesh[tuple(name for name in sizes if name not in _PEERS)]
    model, step = _training_step(data_mesh)
    dataset = open_dataset(cell, paths, mesh=data_mesh)
    dataset = dataset.replace(batch_size=batch_size, uneven="drop")
    loader = make_loader(cell, dataset)
    state = {"model": get_model_state_dict(model), "data": loader}
    if resume_at is not None:
        load(state, checkpoint_id=f"{folder}/{resume_at}")
    for _ in range(EPOCHS - loader.state_dict()["epoch"]):
        numbers.begin()
        for batch in loader:
            numbers.add(batch["id"])
            step(batch)
            if numbers.num_steps in save_at:
                save(state, checkpoint_id=f"{folder}/{numbers.num_steps}")
    dist.destroy_process_group()


def _init_mesh(sizes: Mapping[str, int]) -> DeviceMesh:
    dist.init_process_group("gloo")
    return init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def _training_step(mesh: DeviceMesh) -> Any:
    """Return a model whose parameters are divided on a mesh, and a function that trains it."""
    model = nn.Linear(4, 1)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(batch: Any) -> None:
        model(batch["x"]).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, step
