"""The names of the optional package pyarrow, which is loaded when one of them is used."""

from __future__ import annotations

from typing import Any


def load() -> Any:
    """Load and return pyarrow with its parts for tables.

    Raises:
        ImportError: If it is not installed.
    """
    try:
        import pyarrow.compute  # noqa: PLC0415  # an optional package, and slow to import
        import pyarrow.csv  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise ImportError(
            "CSV, JSON lines and Parquet need the package pyarrow: pip install torchrec-io[parquet]"
        ) from None
    return pyarrow


def __getattr__(name: str) -> Any:
    return getattr(load(), name)
