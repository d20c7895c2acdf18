"""Callbacks for the Trainer of transformers."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from .._loading.loader import Loader


class ResumeLoader(TrainerCallback):
    """A callback that resumes :func:`make_loader` where the checkpoint of a Trainer was saved.

    Write ``TrainingArguments(ignore_data_skip=True)`` with it: otherwise the Trainer itself skips
    batches, for which it reads them, and it cannot skip in a loader of this package. The position
    follows from the number of steps, so checkpoints need no file of their own.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Resume the loader.

        Raises:
            ValueError: If ``ignore_data_skip`` is False.
        """
        del control
        loader = kwargs.get("train_dataloader")
        if not isinstance(loader, Loader) or state.global_step == 0:
            return
        if not args.ignore_data_skip:
            raise ValueError(
                "ignore_data_skip must be True with ResumeLoader, got False: write "
                "TrainingArguments(ignore_data_skip=True)"
            )
        epoch, batches = _position(loader, state.global_step, args.gradient_accumulation_steps)
        loader.resume(epoch=epoch, batches=batches)


def _position(loader: Loader, steps: int, batches_in_step: int) -> tuple[int, int]:
    """Return the epoch after some steps of a Trainer, and the number of its batches."""
    try:
        len(loader)
    except TypeError:  # an endless dataset
        return 0, steps * batches_in_step
    epoch = 0
    # The last step of an epoch may have fewer batches.
    while steps >= (in_epoch := -(-loader.num_batches(epoch) // batches_in_step)) > 0:
        epoch, steps = epoch + 1, steps - in_epoch
    return epoch, steps * batches_in_step
