"""Callbacks for Lightning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from .._datasets.base import RecordDataset
from .._loading.loader import Loader
from .._tensors.device import DevicePrefetcher


class SetEpoch(Callback):
    """A callback that calls ``set_epoch(trainer.current_epoch)`` before each training epoch.

    It reaches the datasets and loaders of this package among the training loaders, also in dicts
    and lists. Lightning calls ``set_epoch`` of samplers only. Without this callback, epochs advance
    when an epoch is read to its end, which does not happen with ``limit_train_batches``: each epoch
    would then have the same batches. docs/trainers.md says when else it is needed.
    """

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Set the epoch of the training loaders."""
        del pl_module
        for readable in _readables(trainer.train_dataloader):
            readable.set_epoch(trainer.current_epoch)


def _readables(loaders: Any) -> Iterator[Any]:
    """Yield the parts of training loaders that have epochs of this package."""
    if isinstance(loaders, (Loader, DevicePrefetcher, RecordDataset)):
        yield loaders
    elif isinstance(loaders, Mapping):
        for loader in loaders.values():
            yield from _readables(loader)
    elif isinstance(loaders, (list, tuple)):
        for loader in loaders:
            yield from _readables(loader)
    elif hasattr(loaders, "dataset"):
        yield from _readables(loaders.dataset)
