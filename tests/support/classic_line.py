"""The line that people write first: ``DataLoader(dataset, batch_size=n)``."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TypeVar

from torch.utils.data import default_collate

import torchrec_io as tio

Shown = TypeVar("Shown")


def through_samples(batch: tio.Batch, show: Callable[[tio.Batch], Shown]) -> Shown:
    """Return what a function shows of a batch, after a check that samples make the same of it.

    Samples are collated as DataLoader does it, as they are and after they were in another process.
    """
    shown = show(batch)
    samples = batch.samples()
    if samples:
        received = [pickle.loads(pickle.dumps(sample)) for sample in samples]
        assert show(default_collate(samples)) == shown
        assert show(default_collate(received)) == shown
    return shown
