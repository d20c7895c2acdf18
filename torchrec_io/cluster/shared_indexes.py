"""Indexes of files; tasks build missing ones."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import closing

from .._records.index import RecordIndex
from .._records.index_cache import keep_index
from .._records.opening import find_indexes
from .._storage.location import Location, threads_for
from .._storage.thread_pool import map_in_threads
from ..errors import TorchRecIOError
from . import tasks


def open_shared_indexes(
    files: Sequence[Location], *, verify_crc: bool = True
) -> tuple[list[RecordIndex], list[TorchRecIOError]]:
    """Return the indexes of files. Tasks build missing indexes; this process caches them.

    Args:
        files: Absolute paths or URLs.
        verify_crc: See :meth:`RecordIndex.build`.

    Returns:
        An index for each file, and the damages that ended building some of them early.

    Raises:
        OSError: If a file cannot be read.
    """
    found = find_indexes(files)
    missing = [number for number, index in enumerate(found) if index is None]
    sizes = sizes_of([files[number] for number in missing])
    work = functools.partial(_build, verify_crc=verify_crc)
    built = tasks.run_tasks(work, [files[number] for number in missing], sizes)
    with closing(built):
        for number, (index, _) in zip(missing, built, strict=True):
            index.location = files[number]  # secrets were not sent
            keep_index(index)
            found[number] = index
    indexes = [index for index in found if index is not None]
    return indexes, [index.damage for index in indexes if index.damage is not None]


def sizes_of(files: Sequence[Location]) -> list[int]:
    """Return the size of each file in bytes, found in a pool of threads.

    Raises:
        OSError: If a file cannot be found.
    """
    return map_in_threads(lambda file: file.stamp().size, files, threads_for(files))


def _build(file: Location, *, verify_crc: bool) -> RecordIndex:
    # A method would be sent whole.
    return RecordIndex.build(file, verify_crc=verify_crc, allow_damage=True)
