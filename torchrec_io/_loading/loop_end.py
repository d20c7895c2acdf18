"""The end of a loop, as Accelerate asks for it."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator

import torch

logger = logging.getLogger("torchrec_io")

_NOT_APPLIED = (
    "the gradients of the last batches of this epoch were accumulated, but not applied in it: this "
    "loader does not know its last batch before the loop asks for another one, so Accelerate does "
    "not know it either. Read the files with TFRecordDataset and on_error='raise', or use "
    "gradient_accumulation_steps=1"
)


class LoopEnd:
    """Stands for a loader in Accelerate's ``GradientState``; the names are those of Accelerate.

    Attributes:
        end_of_dataloader: Whether the loop has the last batch, so that gradients are applied.
        remainder: Number of records in the last step of all processes that are not repeated, which
            ``gather_for_metrics`` keeps. 0 keeps all of them, and so does -1: it is not known.
        dataset: None: Accelerate does not read the dataset.
    """

    dataset = None

    def __init__(self) -> None:
        self.end_of_dataloader = False
        self.remainder = -1

    def note(self, num_unrepeated: int | None) -> None:
        """Note that the loop gets the last batch.

        Args:
            num_unrepeated: Number of records in the last step of all processes, without repeated
                ones; 0 if none is repeated, None if it is not known.
        """
        self.end_of_dataloader = True
        self.remainder = -1 if num_unrepeated is None else num_unrepeated


@contextlib.contextmanager
def announced_end() -> Iterator[LoopEnd | None]:
    """Register a loop with Accelerate as its own loaders do; None if the program does not use it.

    A loop that ends without :meth:`LoopEnd.note` logs a warning if gradients may be lost.
    """
    module = sys.modules.get("accelerate.state")
    if module is None or not module.GradientState._shared_state:  # no Accelerator
        yield None
        return
    state = module.GradientState()
    end = LoopEnd()
    state._add_dataloader(end)  # as accelerate.data_loader does
    try:
        yield end
        is_applied = end.end_of_dataloader or state.sync_gradients
        if not is_applied and torch.is_grad_enabled():  # not in an evaluation
            logger.warning(_NOT_APPLIED)
    finally:
        state._remove_dataloader(end)
