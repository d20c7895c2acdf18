"""The optional package pyarrow."""

from __future__ import annotations

from typing import Any


def import_pyarrow() -> Any:
    """Import and return pyarrow with its parts for tables.

    Raises:
        ImportError: If it is not installed.
    """
    try:
        import pyarrow.compute  # noqa: PLC0415  # an optional package, and slow to import
        import pyarrow.csv  # noqa: PLC0415
        import pyarrow.json  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise ImportError(
            "CSV, JSON lines and Parquet need the package pyarrow: pip install torchrec-io[parquet]"
        ) from None
    return pyarrow
