"""Checks of output paths, and copies of records to outputs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing

from .._records.record_block import RecordBlock
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.remote.options import StorageOptions
from .._writing.shards import shards_of

_SHARD_SUFFIX = re.compile(r"-\d{5,}-of-\d{5,}")


def refuse_inputs(inputs: Sequence[Location], outputs: Iterable[Location]) -> None:
    """Raise an error if an output is an input, under any name.

    Raises:
        ValueError: If an output is an input.
    """
    read = {each.identity: each for each in inputs}
    for output in outputs:
        if (found := read.get(output.identity)) is not None:
            raise ValueError(f"{output!r} would overwrite the input {found!r}; choose another name")


def refuse_shard_inputs(inputs: Sequence[Location], name: Location, num_shards: int | None) -> None:
    """Raise an error if an input is an output shard.

    Args:
        inputs: The inputs.
        name: Common start of the paths of the shards.
        num_shards: Number of shards, or None if it is not known yet.

    Raises:
        ValueError: If an input is, or could be, a shard.
    """
    if num_shards is not None:
        refuse_inputs(inputs, shards_of(name, num_shards))
        return
    whole = name.identity
    for each in inputs:
        real = each.identity
        if real.startswith(whole) and _SHARD_SUFFIX.fullmatch(real[len(whole) :]):
            raise ValueError(
                f"shards of {name!r} could overwrite the input {each!r}; choose another name or "
                "folder"
            )


def check_file_name(name: StrPath, storage_options: StorageOptions = None) -> Location:
    """Return the common start of the names of output files.

    Raises:
        ValueError: If the name is a folder.
    """
    if os.path.basename(name) in ("", os.curdir, os.pardir):
        raise ValueError(
            f"{os.fspath(name)!r} is a folder; add the start of the file names, for example "
            f"{os.path.join(name, 'train')!r}"
        )
    return Location.of(name, storage_options)


def copy_records(blocks: Generator[RecordBlock], write: Callable[[bytes], None]) -> None:
    """Write all records of blocks unchanged."""
    with closing(blocks):  # on an error, no more blocks are read
        for block in blocks:
            for position in range(len(block)):
                write(block[position])
