"""What jobs write to a store, compared with local files."""

from __future__ import annotations

from pathlib import Path

import torchrec_io as tio
from torchrec_io._storage.byte_source import read_bytes
from torchrec_io._storage.folders import stamps_in
from torchrec_io._storage.location import Location


def names(folder: str) -> set[str]:
    """Return the names of all objects in a folder of a store, also of hidden ones."""
    return {*stamps_in(Location.of(folder), is_recursive=True)}


def visible(folder: str) -> set[str]:
    """Return the names that a job gives at its end."""
    return {name for name in names(folder) if not name.startswith(".")}


def assert_same_as_local(folder: str, local: Path, name: str = "x") -> None:
    """Compare all objects in a folder of a store with local files of a name."""
    files = {path.name: path for path in local.iterdir() if path.name.startswith(name)}
    assert names(folder) == files.keys()
    for each, path in files.items():
        if not each.endswith(".tfidx"):
            source = Location.of(f"{folder}/{each}").open()
            assert read_bytes(source, 0, source.stamp.size) == path.read_bytes()
        elif each.removesuffix(".tfidx") in files:
            index = tio.RecordIndex.load(f"{folder}/{each}", f"{folder}/{each[:-6]}")
            assert index.offsets.tolist() == tio.RecordIndex.load(path).offsets.tolist()
