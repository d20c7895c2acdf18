"""What DataLoaders end with."""

from __future__ import annotations

import traceback
from typing import Any

import pytest


def error_of(loader: Any) -> Exception:
    """The error that going through a DataLoader ends with."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  # the caller looks at it
        list(loader)
    # The error's traceback holds the iterator: left to the garbage collector, PyTorch waits five
    # seconds for each worker.
    for frame, _ in traceback.walk_tb(caught.value.__traceback__):
        holder: Any = frame.f_locals.get("self")
        if hasattr(holder, "_shutdown_workers"):
            holder._shutdown_workers()
    return caught.value
