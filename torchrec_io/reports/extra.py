"""The optional packages of reports."""

from __future__ import annotations

import importlib
from typing import Any


def import_datasketches() -> Any:
    """Import and return datasketches.

    Raises:
        ImportError: If it is not installed.
    """
    return _import("datasketches")


def import_jinja() -> Any:
    """Import and return jinja2.

    Raises:
        ImportError: If it is not installed.
    """
    return _import("jinja2")


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError(
            f"reports need the package {name}: pip install torchrec-io[report]"
        ) from None
