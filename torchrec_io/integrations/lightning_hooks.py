"""Detection of a position that Lightning cannot save: that of a plain DataLoader.

Lightning saves the positions of loaders that have a ``state_dict`` method.
"""

from __future__ import annotations

import inspect

_LOST_POSITION = (
    "a plain DataLoader with workers has no position that Lightning could save: after a checkpoint "
    "in the middle of an epoch, the epoch starts again. Use tio.make_loader, or a "
    "StatefulDataLoader"
)

_STATEFUL_LOADER = "torchdata.stateful_dataloader"


def position_warning() -> str | None:
    """Return a warning if this process is a worker of a plain DataLoader.

    A worker cannot ask its loader, but sees which module runs it.
    """
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_STATEFUL_LOADER):
            return None
        frame = frame.f_back
    return _LOST_POSITION
