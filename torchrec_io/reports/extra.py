"""The optional packages of reports."""

from __future__ import annotations

import importlib
from typing import Any


def import_extra(name: str) -> Any:
    """Import and return an optional package: datasketches or jinja2.

    Raises:
        ImportError: If it is not installed. The extra leaves datasketches out where it has no
            wheels, so the message names it, too.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError(
            f"reports need the package {name}: pip install torchrec-io[report] {name}"
        ) from None
