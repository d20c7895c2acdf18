"""Sequential reading of files that may be damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchrec_io import TorchRecIOError
from torchrec_io._records.sequential import iter_records


def read(path: Path, **options: Any) -> tuple[list[tuple[int, bytes]], TorchRecIOError | None]:
    """Return the records before the first damage, with offsets, and the error, if any."""
    found: list[tuple[int, bytes]] = []
    try:
        found.extend(iter_records(path, **options))
    except TorchRecIOError as error:
        return found, error
    return found, None
