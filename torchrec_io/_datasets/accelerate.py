"""Partition of a dataset among processes by Hugging Face Accelerate, which its Trainer uses.

``Accelerator.prepare`` lets every process (``IterableDatasetShard``) or process 0
(``DataLoaderDispatcher``) iterate the whole dataset, and passes on parts of what it yields. So a
dataset that is read by a prepared loader must yield all records. The loader is found through
``accelerate.state.GradientState.active_dataloader``, "the dataloader that is currently being
iterated over" (https://huggingface.co/docs/accelerate/package_reference/state), or in a DataLoader
worker through ``torch.utils.data.get_worker_info``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch.utils.data import default_collate, get_worker_info
from torch.utils.data._utils.collate import default_convert

# Number of parts of a dataset that are searched for another dataset.
_MOST_PARTS = 10_000

_MAKE_LOADER = (
    "loader = tio.make_loader(dataset, device=accelerator.device), which needs no prepare; with "
    "transformers' Trainer, return tio.make_loader(dataset, collate_fn=dict) from "
    "get_train_dataloader"
)

UNPREPARED = (
    "this program has an Accelerator with several processes, but the dataset is not read by a "
    "DataLoader from accelerator.prepare, so each process would read all records. Pass the "
    f"DataLoader to prepare; or write {_MAKE_LOADER}; or give rank and world_size to the dataset "
    "(rank=0, world_size=1 to read all of it here). With use_stateful_dataloader=True and workers, "
    "which start in prepare, write DataLoaderConfiguration(dispatch_batches=False)"
)


@dataclass(frozen=True)
class PreparedReader:
    """A loader from ``Accelerator.prepare`` that reads a dataset.

    Attributes:
        num_processes: Number of processes that share what the dataset yields.
        is_dispatcher: Whether process 0 reads for all.
        batch_size: Number of samples that are put together; None if items are used as they are.
        split_batches: Whether a batch is for all processes, not for one.
        keeps_columns: Whether the columns of its batches are those of the dataset.
    """

    num_processes: int
    is_dispatcher: bool
    batch_size: int | None
    split_batches: bool
    keeps_columns: bool

    @property
    def samples_at_once(self) -> int | None:
        """Number of samples that must come from one worker, or records would be lost or repeated.

        A dispatcher drops what it cannot divide, and a shard fills up what is not full.
        """
        if self.num_processes == 1:
            return None  # nothing is divided; workers that start in prepare know no batch size
        if self.batch_size is None or self.is_dispatcher or self.split_batches:
            return self.batch_size
        return self.batch_size * self.num_processes

    @property
    def warning(self) -> str | None:
        """Warning about the cost of reading, if there is one."""
        if self.is_dispatcher or self.num_processes == 1:
            return None
        return (
            f"each of the {self.num_processes} processes reads all records, of which Accelerate "
            "passes on a share. With tio.make_loader, a process reads its share only"
        )

    def problem_with(  # noqa: PLR0911  # one return for each problem
        self, world_size: int | None, *, in_batches: bool, other_columns: Sequence[str]
    ) -> str | None:
        """Return why the loader cannot divide the items of a dataset; None if it can.

        Args:
            world_size: The option of the dataset.
            in_batches: Whether the dataset yields batches.
            other_columns: Names of the columns that are no Tensors.
        """
        if world_size is not None and world_size > 1:
            return (
                "world_size must be None for a DataLoader that Accelerate prepares, got "
                f"{world_size}: Accelerate itself gives each process its share of the dataset"
            )
        if self.batch_size is not None and in_batches:
            return (
                f"the dataset yields batches, which DataLoader(batch_size={self.batch_size}) would "
                f"put into batches. Write {_MAKE_LOADER}; or remove batch_size from the dataset, "
                "which then yields samples"
            )
        if self.is_dispatcher and not self.keeps_columns:
            return None  # whatever collate_fn makes of an item
        if not self.is_dispatcher and self.num_processes == 1:
            return None  # nothing is divided
        if self.batch_size is None:
            what = "a Batch" if in_batches else "a single sample"
            return (
                f"Accelerate cannot split {what} among processes, which DataLoader(dataset, "
                f"batch_size=None) yields. Write {_MAKE_LOADER}; or give batch_size to the "
                "DataLoader and not to the dataset"
            )
        if self.is_dispatcher and other_columns:
            return (
                f"Accelerate cannot dispatch {', '.join(other_columns)} from one process to the "
                "others: only Tensors can be split. Write Accelerator(dataloader_config="
                f"DataLoaderConfiguration(dispatch_batches=False)); or {_MAKE_LOADER}"
            )
        return None


def is_shared() -> bool:
    """Return whether this process has an ``Accelerator`` with other processes."""
    state = _module("state")
    if state is None or not state.is_initialized():
        return False
    return bool(state.PartialState().num_processes > 1)


def find_reader(part: object) -> PreparedReader | None:
    """Return the prepared loader that reads a part of a dataset in this process.

    Args:
        part: An object that only that dataset refers to.
    """
    if _module("data_loader") is None:
        return None  # quickly, as in most programs
    worker = get_worker_info()
    if worker is not None and _is_shard(worker.dataset) and _refers_to(worker.dataset, part):
        return _reader_of_shard(worker.dataset)
    state = _module("state")
    loader = state.GradientState().active_dataloader if state.is_initialized() else None
    if loader is None or not _refers_to(loader.dataset, part):
        return None
    return _reader_of(loader)


def _reader_of(loader: Any) -> PreparedReader | None:
    module = _module("data_loader")
    if _is_shard(loader.dataset):
        return _reader_of_shard(loader.dataset)
    if isinstance(loader, module.DataLoaderDispatcher):
        return PreparedReader(
            num_processes=_module("state").PartialState().num_processes,
            is_dispatcher=True,
            batch_size=loader.batch_size,
            split_batches=loader.split_batches,
            keeps_columns=_keeps_columns(loader.collate_fn),
        )
    if isinstance(loader, module.DataLoaderShard):  # a single process reads the dataset as it is
        return PreparedReader(
            num_processes=1,
            is_dispatcher=False,
            batch_size=loader.batch_size,
            split_batches=False,
            keeps_columns=True,
        )
    return None


def _module(name: str) -> Any:
    """Return a module of Accelerate if it was imported; else None."""
    return sys.modules.get(f"accelerate.{name}")


def _is_shard(dataset: object) -> bool:
    return isinstance(dataset, _module("data_loader").IterableDatasetShard)


def _reader_of_shard(shard: Any) -> PreparedReader:
    return PreparedReader(
        num_processes=shard.num_processes,
        is_dispatcher=False,
        batch_size=shard.batch_size,
        split_batches=shard.split_batches,
        keeps_columns=True,
    )


def _keeps_columns(collate_fn: Any) -> bool:
    """Return whether a collate function keeps the columns of a dataset."""
    from .._tensors.collate import collate  # noqa: PLC0415  # not needed otherwise

    return collate_fn in (None, default_convert, default_collate, collate)


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
