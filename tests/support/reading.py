"""Reading a file from front to back, damage and all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchrec_io import TorchRecIOError
from torchrec_io.records.sequential import iter_records


def read(path: Path, **options: Any) -> tuple[list[tuple[int, bytes]], TorchRecIOError | None]:
    """The records before the damage, with their offsets, and the damage, if any."""
    found: list[tuple[int, bytes]] = []
    try:
        found.extend(iter_records(path, **options))
    except TorchRecIOError as error:
        return found, error
    return found, None
