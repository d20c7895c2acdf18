"""Objects that jobs write to a store."""

from __future__ import annotations

from torchrec_io._storage.folders import stamps_in
from torchrec_io._storage.location import Location


def names(folder: str) -> set[str]:
    """Return the names of all objects in a folder of a store, also of hidden ones."""
    return {*stamps_in(Location.of(folder), is_recursive=True)}
