"""Errors that DataLoaders raise."""

from __future__ import annotations

import traceback
from typing import Any

import pytest


def error_of(loader: Any) -> Exception:
    """Return the error that ends the iteration of a DataLoader, without its traceback."""
    try:
        list(loader)
    except Exception as error:  # noqa: BLE001  # the caller looks at it
        # The frames reference iterators. If the garbage collector frees these, PyTorch waits five
        # seconds for each worker.
        for frame, _ in traceback.walk_tb(error.__traceback__):
            holder: Any = frame.f_locals.get("self")
            if hasattr(holder, "_shutdown_workers"):
                holder._shutdown_workers()
        return error.with_traceback(None)
    pytest.fail("it ended well")
