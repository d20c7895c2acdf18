"""The interface between datasets and the libraries that run a training.

The core does not know the libraries: :mod:`torchrec_io.integrations` makes their
:class:`TrainerHooks`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple


class ReadDataset(NamedTuple):
    """A dataset, as a trainer sees it.

    Attributes:
        part: An object that only this dataset refers to.
        has_own_share: Whether the dataset itself gives this process its share of the records if no
            loader of a trainer reads it.
        world_size: The option of the dataset.
        in_batches: Whether the dataset yields batches.
        other_columns: Returns the names of the columns that are no Tensors.
    """

    part: object
    has_own_share: bool
    world_size: int | None
    in_batches: bool
    other_columns: Callable[[], Sequence[str]]


@dataclass(frozen=True)
class TrainerLoader:
    """A trainer's loader that divides the items of a dataset among processes.

    The dataset yields all records, unless it was given a rank.

    Attributes:
        samples_at_once: Number of consecutive samples that one DataLoader worker must yield; None
            for any number.
        warning: Warning that is logged once, before the first item.
        problem: Reason why the loader cannot divide the items of the dataset; None if it can.
        is_iterating: Whether the loader is iterating now, in this process or in that which started
            it.
    """

    samples_at_once: int | None = None
    warning: str | None = None
    problem: str | None = None
    is_iterating: bool = True


class TrainerHooks(NamedTuple):
    """Functions of the training libraries that this process has imported.

    Attributes:
        makes_dicts: Returns whether ``default_collate`` makes a dict of Tensors of samples, and no
            Batch.
        find_loader: Returns the trainer's loader that reads a dataset; None if there is none.
        position_warning: Returns a warning if the trainer cannot save the loader of this DataLoader
            worker.
        registered_loop: Returns a context in which a loop over :func:`make_loader` runs. Its value
            is called, if there is one, when the loop gets its last batch, with the number of
            records in the last step of all processes, without repeated ones: 0 if none is repeated,
            None if it is not known.
    """

    makes_dicts: Callable[[], bool] = lambda: False
    find_loader: Callable[[ReadDataset], TrainerLoader | None] = lambda _: None
    position_warning: Callable[[], str | None] = lambda: None
    registered_loop: Callable[[], AbstractContextManager[Callable[[int | None], None] | None]] = (
        contextlib.nullcontext
    )


def trainer_hooks() -> TrainerHooks:
    """Return the hooks of the trainers that this process has imported."""
    from ..integrations import trainers  # noqa: PLC0415  # an optional room

    return trainers.imported_hooks()


# Whether the process that started this DataLoader worker makes dicts. A spawned worker has no
# trainer of its own.
_parent_makes_dicts = False


def makes_dicts() -> bool:
    """Return whether ``default_collate`` makes a dict of Tensors of samples, and no Batch."""
    return _parent_makes_dicts or trainer_hooks().makes_dicts()


def make_dicts() -> None:
    """Make dicts in this DataLoader worker, as the process does that started it."""
    global _parent_makes_dicts  # noqa: PLW0603  # a worker serves one loader
    _parent_makes_dicts = True
