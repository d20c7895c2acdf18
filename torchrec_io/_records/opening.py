"""Opening of the indexes of several data files, in a pool of threads."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import TypeAlias

from .._storage.compression import CompressionChoice
from .._storage.local import StrPath
from .._storage.location import Location, threads_for
from .._storage.thread_pool import map_in_threads
from ..checks import counted
from ..errors import TorchRecIOError
from .formats import TFRECORD, RecordFormat
from .index import RecordIndex
from .index_cache import IndexSearch
from .known_files import KnownFiles

IndexChoice: TypeAlias = StrPath | Sequence[StrPath]

logger = logging.getLogger("torchrec_io")

# What is known about that many files is kept in one file of the cache.
_MANY_FILES = 1000


def open_indexes(
    files: Sequence[Location],
    index: IndexChoice,
    compression: CompressionChoice,
    record_format: RecordFormat = TFRECORD,
    *,
    verify_crc: bool = True,
    advanced: Callable[[int], object] | None = None,
) -> tuple[list[RecordIndex], list[TorchRecIOError]]:
    """Return the indexes of several data files, opened in a pool of threads.

    Args:
        files: Data files.
        index: ``"auto"`` to find or build each index (:class:`IndexSearch`); or the index file of
            each data file, a path or several.
        compression: Compression of the files: ``"auto"`` (by content), None, ``"gzip"``,
            ``"zlib"`` or ``"zstd"``.
        record_format: Record format of the files.
        verify_crc: See :meth:`RecordIndex.build`.
        advanced: Function that threads call with the number of bytes read since their last call,
            while they build indexes.

    Returns:
        An index for each file, and the damages that ended building some of them early.

    Raises:
        StaleIndexError, IndexFormatError: If a given index does not match its file, leaves out
            records of it, or is damaged.
        IndexTooLargeError: If a new index would be too large.
        ValueError: If ``index`` is neither, or does not have one path for each file.
        FileNotFoundError, IsADirectoryError: If a file does not exist.
    """
    if index is None:
        raise ValueError("index must be 'auto', a path or a list of paths, got None")
    threads = threads_for(files)
    if index == "auto":
        searches = [
            IndexSearch(file, compression, record_format, verify_crc, advanced) for file in files
        ]
        indexes = _find_or_build(searches, threads)
    else:
        names = [index] if isinstance(index, (str, os.PathLike)) else list(index)
        if len(names) != len(files):
            raise ValueError(
                f"index must have {counted(len(files), 'path')}, one for each data file, got "
                f"{len(names)}"
            )
        indexes = map_in_threads(
            lambda pair: RecordIndex.load(*pair, format=record_format),
            list(zip(names, files, strict=True)),
            threads,
        )
    return indexes, [index.damage for index in indexes if index.damage is not None]


def _find_or_build(searches: Sequence[IndexSearch], threads: int | None) -> list[RecordIndex]:
    """Return the index of each file; those of many files are deferred if the files are known."""
    if len(searches) < _MANY_FILES or not searches[0].record_format.is_cached:
        return map_in_threads(IndexSearch.find_or_build, searches, threads)
    stamps = map_in_threads(lambda search: search.file.stamp(), searches, threads)
    known = KnownFiles(searches, stamps)
    deferred = known.load()
    others = [each for each, index in zip(searches, deferred, strict=True) if index is None]
    found = iter(map_in_threads(IndexSearch.find_or_build, others, threads))
    indexes = [index or next(found) for index in deferred]
    if others:
        known.save(indexes)
    return indexes


def find_indexes(files: Sequence[Location]) -> list[RecordIndex | None]:
    """Return the indexes of TFRecord files that exist, each beside its file or in the cache.

    They are looked for in a pool of threads.

    Args:
        files: Data files.

    Returns:
        An index for each file; None if it does not exist.
    """
    return map_in_threads(IndexSearch.find, [*map(IndexSearch, files)], threads_for(files))


def load_deferred(indexes: Sequence[RecordIndex]) -> None:
    """Load those indexes that load on first use, in a pool of threads if there are several."""
    deferred = [index for index in indexes if not index.is_loaded]
    if len(deferred) > 1:
        logger.info("finding the indexes of %s", counted(len(deferred), "file"))
        threads = threads_for(index.location for index in deferred)
        map_in_threads(lambda index: index.file, deferred, threads)
