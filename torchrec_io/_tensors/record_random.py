"""Random numbers for transforms, which depend on the record alone."""

from __future__ import annotations

from typing import overload

import torch

from .batch import Batch
from .sample import Sample


@overload
def record_random(item: Sample) -> torch.Generator: ...
@overload
def record_random(item: Batch) -> list[torch.Generator]: ...
def record_random(item: Sample | Batch) -> torch.Generator | list[torch.Generator]:
    """Return the random number generator of a record, or of each record of a batch.

    A generator depends on the seed of the dataset, the epoch and the record only. So a random
    ``transform=`` makes the same of a record with any number of workers, threads and ranks, and
    after resuming. A record that comes several times in an epoch, because it is drawn by weight or
    repeated in a mixture, has another generator each time. Each call returns a new generator at its
    start. For functions that take no generator, use its seed:
    ``numpy.random.default_rng(generator.initial_seed())``.

    Args:
        item: A sample of a dataset, or the batch that a dataset calls its transform with.

    Returns:
        A generator on the CPU; for a batch a list with one for each record.

    Raises:
        ValueError: If the records are not known, as in a sample of other values, or in a batch
            outside of a transform.
        TypeError: If the argument is something else.
    """
    if isinstance(item, Batch):
        if item.origins is None:
            raise ValueError(
                "record_random must be called in a transform with its batch: the records of other "
                "batches are not known"
            )
        random, numbers = item.origins
        return [_generator(random.seed_of(number)) for number in numbers]
    if not isinstance(item, Sample):
        raise TypeError(f"item must be a Sample or a Batch, got {type(item).__name__}")
    rows, row = item.place
    if rows.origins is None:
        raise ValueError(
            "record_random must be called with a sample of a dataset: the record of another sample "
            "is not known"
        )
    random, numbers = rows.origins
    return _generator(random.seed_of(numbers[row]))


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
