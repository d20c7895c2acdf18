"""How Hugging Face Accelerate, which its Trainer uses, shares a dataset among processes.

``Accelerator.prepare`` lets every process (``IterableDatasetShard``) or process 0
(``DataLoaderDispatcher``) iterate the whole dataset, and passes on parts of what it yields. So a
dataset that is read by a prepared loader must yield all records. The loader is found through
``accelerate.state.GradientState.active_dataloader``, "the dataloader that is currently being
iterated over" (https://huggingface.co/docs/accelerate/package_reference/state).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch.utils.data import default_collate, get_worker_info
from torch.utils.data._utils.collate import default_convert

from ..tensors.collate import collate

# Collate functions that keep columns as they are.
_COLLATE_FUNCTIONS = (None, default_convert, default_collate, collate)
# Number of parts of a dataset that are searched for another dataset.
_MOST_PARTS = 10_000

_MAKE_LOADER = (
    "loader = tio.make_loader(dataset, device=accelerator.device), which needs no prepare; with "
    "transformers' Trainer, return tio.make_loader(dataset) from get_train_dataloader"
)


def is_in_use() -> bool:
    """Return whether this process has an ``Accelerator``."""
    state = sys.modules.get("accelerate.state")
    return state is not None and bool(state.is_initialized())


def num_processes() -> int:
    """Return the number of processes of the ``Accelerator``; 1 without one."""
    return int(sys.modules["accelerate.state"].PartialState().num_processes) if is_in_use() else 1


def active_loader(part: object) -> Any:
    """Return the prepared loader that is being iterated, if it reads a part of a dataset.

    Args:
        part: An object that only that dataset refers to.
    """
    if not is_in_use():
        return None
    loader = sys.modules["accelerate.state"].GradientState().active_dataloader
    return loader if loader is not None and _refers_to(loader.dataset, part) else None


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


def splits(loader: Any) -> bool:
    """Return whether a prepared loader passes on parts of what its dataset yields."""
    return _is_dispatcher(loader) or _shard_of(loader) is not None


def _is_dispatcher(loader: Any) -> bool:
    return isinstance(loader, sys.modules["accelerate.data_loader"].DataLoaderDispatcher)


def _shard_of(loader: Any) -> Any:
    module = sys.modules["accelerate.data_loader"]
    return loader.dataset if isinstance(loader.dataset, module.IterableDatasetShard) else None


def is_sharded_in_worker(part: object) -> bool:
    """Return whether Accelerate's ``IterableDatasetShard`` reads a part of a dataset in a worker."""
    worker = get_worker_info()
    module = sys.modules.get("accelerate.data_loader")
    if worker is None or module is None:
        return False
    return isinstance(worker.dataset, module.IterableDatasetShard) and _refers_to(
        worker.dataset, part
    )


def problem_of(  # noqa: PLR0911  # one for each problem
    loader: Any, world_size: int | None, *, in_batches: bool, other_columns: Sequence[str]
) -> str | None:
    """Return why a prepared loader cannot split the items of a dataset; None if it can.

    Args:
        loader: The loader.
        world_size: The option of the dataset.
        in_batches: Whether the dataset yields batches.
        other_columns: Names of the columns that are no Tensors.
    """
    if not splits(loader):
        return None
    if world_size is not None and world_size > 1:
        return (
            f"world_size must be None for a DataLoader that Accelerate prepares, got {world_size}: "
            "Accelerate itself gives each process its share of the dataset"
        )
    if loader.batch_size is not None and in_batches:
        return (
            f"the dataset yields batches, which DataLoader(batch_size={loader.batch_size}) would "
            f"put into batches. Write {_MAKE_LOADER}; or remove batch_size from the dataset, which "
            "then yields samples"
        )
    if _is_dispatcher(loader) and loader.collate_fn not in _COLLATE_FUNCTIONS:
        return None  # whatever collate_fn makes of an item
    if loader.batch_size is None:
        return _about_no_batch_size("a Batch" if in_batches else "a single sample")
    if _is_dispatcher(loader) and other_columns:
        return _about_other_columns(other_columns)
    return None


def _about_no_batch_size(what: str) -> str:
    return (
        f"Accelerate cannot split {what} among processes, which DataLoader(dataset, "
        f"batch_size=None) yields. Write {_MAKE_LOADER}; or give batch_size to the DataLoader and "
        "not to the dataset"
    )


def _about_other_columns(names: Sequence[str]) -> str:
    return (
        f"Accelerate cannot dispatch {', '.join(names)} from one process to the others: only "
        "Tensors can be split. Write "
        "Accelerator(dataloader_config=DataLoaderConfiguration(dispatch_batches=False)); or "
        f"{_MAKE_LOADER}"
    )


def about_unprepared() -> str:
    """Return the error message for a dataset that is read by no prepared loader."""
    return (
        "this program has an Accelerator with several processes, but the dataset is not read by a "
        "DataLoader from accelerator.prepare, so each process would read all records. Pass the "
        f"DataLoader to prepare; or write {_MAKE_LOADER}; or give rank and world_size to the "
        "dataset (rank=0, world_size=1 to read all of it here)"
    )


# Workers of a StatefulDataLoader start in prepare, so they cannot see what reads the dataset.
PERHAPS_UNPREPARED = (
    "no loader from accelerator.prepare has read the dataset so far: if this StatefulDataLoader is "
    "not one, each process reads all records. Pass it to prepare, or use tio.make_loader"
)


def warning_of(loader: Any) -> str | None:
    """Return a warning about the way in which a prepared loader reads a dataset."""
    shard = _shard_of(loader)
    if shard is None:
        return None
    return (
        f"each of the {shard.num_processes} processes reads all records, of which Accelerate "
        "passes on a share. With tio.make_loader, a process reads its share only"
    )
