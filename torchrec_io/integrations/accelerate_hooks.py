"""Datasets and loaders under Hugging Face Accelerate, which the Trainer of transformers uses.

``Accelerator.prepare`` lets every process (``IterableDatasetShard``) or process 0
(``DataLoaderDispatcher``) iterate the whole dataset, and passes on parts of what it yields. So a
dataset that is read by a prepared loader must yield all records. The loader is found through
``accelerate.state.GradientState.active_dataloader``, "the dataloader that is currently being
iterated over" (https://huggingface.co/docs/accelerate/package_reference/state), or in a DataLoader
worker through ``torch.utils.data.get_worker_info``.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from accelerate.data_loader import DataLoaderDispatcher, DataLoaderShard, IterableDatasetShard
from accelerate.state import GradientState, PartialState, is_initialized
from torch.utils.data import default_collate, get_worker_info
from torch.utils.data._utils.collate import default_convert

from .._order.mesh import divides_data
from .._tensors.collate import collate
from .._tensors.trainers import ReadDataset, TrainerHooks, TrainerLoader
from .prepared_loader import MISSING, PreparedLoader

logger: logging.Logger = logging.getLogger("torchrec_io")

# Number of parts of a dataset that are searched for another dataset.
_MOST_PARTS = 10_000

_NOT_APPLIED = (
    "the gradients of the last batches of this epoch were accumulated, but not applied in it: this "
    "loader does not know its last batch before the loop asks for another one, so Accelerate does "
    "not know it either. Read the files with TFRecordDataset and on_error='raise', or use "
    "gradient_accumulation_steps=1"
)


def _makes_dicts() -> bool:
    """Return whether this process has an ``Accelerator``, which splits dicts of Tensors."""
    return bool(is_initialized())


def _find_loader(dataset: ReadDataset) -> TrainerLoader | None:
    """Return the prepared loader that reads a dataset.

    Several processes must not read all records: without a loader, that is a problem.
    """
    loader = _prepared_loader(dataset.part)
    if loader is not None:
        return loader.reading(dataset)
    is_whole = not dataset.has_own_share and is_initialized()
    return MISSING if is_whole and PartialState().num_processes > 1 else None


def _prepared_loader(part: object) -> PreparedLoader | None:
    """Return the prepared loader that reads the dataset of a part in this process."""
    worker = get_worker_info()
    shard = None if worker is None else worker.dataset
    if isinstance(shard, IterableDatasetShard) and _refers_to(shard, part):
        return _of_shard(shard)
    loader = GradientState().active_dataloader if is_initialized() else None
    if loader is None or not _refers_to(loader.dataset, part):
        return None
    if isinstance(loader.dataset, IterableDatasetShard):
        return _of_shard(loader.dataset)
    if isinstance(loader, DataLoaderDispatcher):
        return PreparedLoader(
            PartialState().num_processes,
            loader.batch_size,
            loader.split_batches,
            is_dispatcher=True,
            keeps_columns=loader.collate_fn in (None, default_convert, default_collate, collate),
            has_peers=_has_peers(loader.torch_device_mesh),
        )
    if isinstance(loader, DataLoaderShard):  # a single process reads the dataset as it is
        return PreparedLoader(1, loader.batch_size)
    return None


def _has_peers(mesh: Any) -> bool:
    """Return whether processes of a mesh read the same records, and a dispatcher ignores that.

    With tensor parallelism alone, it sends each batch to all processes.
    """
    return mesh is not None and mesh.mesh_dim_names != ("tp",) and not divides_data(mesh)


def _of_shard(shard: Any) -> PreparedLoader:
    return PreparedLoader(shard.num_processes, shard.batch_size, shard.split_batches)


def _refers_to(owner: object, part: object) -> bool:
    """Return whether a dataset is, or is made of others of which one is, the owner of a part."""
    seen: set[int] = set()
    waiting = [owner]
    while waiting and len(seen) < _MOST_PARTS:
        current = waiting.pop()
        if current is part:
            return True
        if id(current) not in seen:
            seen.add(id(current))
            waiting.extend(_parts_of(current))
    return False


def _parts_of(owner: object) -> Iterator[object]:
    if isinstance(owner, Mapping):
        yield from owner.values()
    elif isinstance(owner, (list, tuple)):
        yield from owner
    elif hasattr(owner, "__dict__") and not isinstance(owner, type):
        yield from vars(owner).values()


# ---- loops ----


@contextlib.contextmanager
def _registered_loop() -> Iterator[Callable[[int | None], None] | None]:
    """Register a loop as Accelerate's own loaders do, if the program has an ``Accelerator``.

    A loop that ends without a last batch logs a warning if gradients may be lost.
    """
    if not GradientState._shared_state:  # noqa: SLF001  # no Accelerator
        yield None
        return
    state = GradientState()
    loop = _RegisteredLoop()
    state._add_dataloader(loop)  # noqa: SLF001  # as accelerate.data_loader does
    try:
        yield loop.end
        is_applied = loop.end_of_dataloader or state.sync_gradients
        if not is_applied and torch.is_grad_enabled():  # not in an evaluation
            logger.warning(_NOT_APPLIED)
    finally:
        state._remove_dataloader(loop)  # noqa: SLF001


class _RegisteredLoop:
    """A loop in the place of a loader in Accelerate's ``GradientState``, with its names.

    Attributes:
        end_of_dataloader: Whether the loop has the last batch, so that gradients are applied.
        remainder: Number of records in the last step of all processes that are not repeated, which
            ``gather_for_metrics`` keeps. 0 keeps all of them, and so does -1: it is not known.
        dataset: None: Accelerate does not read the dataset.
    """

    dataset = None
    end_of_dataloader = False
    remainder = -1

    def end(self, num_unrepeated: int | None) -> None:
        """Mark the last batch of the loop."""
        self.end_of_dataloader = True
        self.remainder = -1 if num_unrepeated is None else num_unrepeated


HOOKS = TrainerHooks(_makes_dicts, _find_loader, registered_loop=_registered_loop)
