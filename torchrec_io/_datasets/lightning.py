"""Detection of a position that Lightning cannot save: that of a plain DataLoader.

Lightning saves the positions of loaders that have a ``state_dict`` method.
"""

from __future__ import annotations

import inspect
import sys

LOST_POSITION = (
    "a plain DataLoader with workers has no position that Lightning could save: after a checkpoint "
    "in the middle of an epoch, the epoch starts again. Use tio.make_loader, or a "
    "StatefulDataLoader"
)

_STATEFUL_LOADER = "torchdata.stateful_dataloader"


def loses_position() -> bool:
    """Return whether Lightning cannot save the loader of which this process is a worker.

    A worker cannot ask its loader, but sees which module runs it.
    """
    if not {"lightning.pytorch", "pytorch_lightning"} & sys.modules.keys():
        return False
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_STATEFUL_LOADER):
            return False
        frame = frame.f_back
    return True
