"""Checks of output paths, and copies of records to outputs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing

from ..records.record_block import RecordBlock
from ..storage.local import StrPath
from ..storage.opening import identity_of, local_name
from ..writing.shards import shard_paths

_SHARD_SUFFIX = re.compile(r"-\d{5,}-of-\d{5,}")


def refuse_inputs(inputs: Sequence[str], outputs: Iterable[StrPath]) -> None:
    """Raise an error if an output is an input, under any name.

    Raises:
        ValueError: If an output is an input.
    """
    read = {identity_of(path): path for path in inputs}
    for output in outputs:
        if (path := read.get(identity_of(output))) is not None:
            raise ValueError(
                f"{os.fspath(output)!r} would overwrite the input {path!r}; choose another name"
            )


def refuse_shard_inputs(inputs: Sequence[str], name: StrPath, num_shards: int | None) -> None:
    """Raise an error if an input is an output shard.

    Args:
        inputs: Paths of the inputs.
        name: Common start of the paths of the shards.
        num_shards: Number of shards, or None if it is not known yet.

    Raises:
        ValueError: If an input is, or could be, a shard.
    """
    if num_shards is not None:
        refuse_inputs(inputs, shard_paths(name, num_shards))
        return
    whole = identity_of(name)
    for path in inputs:
        real = identity_of(path)
        if real.startswith(whole) and _SHARD_SUFFIX.fullmatch(real[len(whole) :]):
            raise ValueError(
                f"shards of {os.fspath(name)!r} could overwrite the input {path!r}; choose another "
                "name or folder"
            )


def check_file_name(name: StrPath) -> str:
    """Return the common start of the names of output files, without ``file://``.

    Raises:
        ValueError: If the name is a folder.
    """
    if os.path.basename(name) in ("", os.curdir, os.pardir):
        raise ValueError(
            f"{os.fspath(name)!r} is a folder; add the start of the file names, for example "
            f"{os.path.join(name, 'train')!r}"
        )
    return local_name(name)


def copy_records(blocks: Generator[RecordBlock], write: Callable[[bytes], None]) -> None:
    """Write all records of blocks unchanged."""
    with closing(blocks):  # on an error, no more blocks are read
        for block in blocks:
            for position in range(len(block)):
                write(block[position])
