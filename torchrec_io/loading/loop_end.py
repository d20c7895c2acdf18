"""The end of a loop, as Accelerate asks for it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


class LoopEnd:
    """Stands for a loader in Accelerate's ``GradientState``; the names are those of Accelerate.

    Attributes:
        end_of_dataloader: Whether the loop has the last batch, so that gradients are applied.
        remainder: -1: the number of records that are padded is not known.
        dataset: None: Accelerate does not read the dataset.
    """

    dataset = None

    def __init__(self) -> None:
        self.end_of_dataloader = False
        self.remainder = -1


@contextlib.contextmanager
def announced_end() -> Iterator[LoopEnd]:
    """Register a loop with Accelerate, if the program uses it, as its own loaders do."""
    end = LoopEnd()
    module = sys.modules.get("accelerate.state")
    if module is None or not module.GradientState._shared_state:  # noqa: SLF001  # no Accelerator
        yield end
        return
    state = module.GradientState()
    state._add_dataloader(end)  # noqa: SLF001  # as accelerate.data_loader does
    try:
        yield end
    finally:
        state._remove_dataloader(end)  # noqa: SLF001
