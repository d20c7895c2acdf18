"""Lookup of indexes: beside the data files, in the user's cache directory, or by building them."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ..checks import counted, printable
from ..errors import IndexFormatError, StaleIndexError, TorchRecIOError
from ..storage.byte_source import Stamp
from ..storage.cache_folder import cache_folder, is_own_cache_file, make_cache_folder
from ..storage.compression import CompressionChoice
from ..storage.digest import digest_text
from ..storage.local import StrPath
from ..storage.location import Location, threads_for
from ..storage.paths import LinkResolver
from ..storage.thread_pool import map_in_threads
from .deferred_index import DeferredIndex, IndexFacts
from .formats import TFRECORD, RecordFormat
from .index import RecordIndex
from .index_file import SUFFIX
from .manifests import find_facts

IndexChoice: TypeAlias = StrPath | Sequence[StrPath]

logger = logging.getLogger("torchrec_io")


class _Cache:
    """The directory for indexes of data files that have none beside them."""

    def __init__(self) -> None:
        self.root = cache_folder()
        self._links = LinkResolver()

    def path(self, file: Location, record_format: RecordFormat, stamp: Stamp | None = None) -> str:
        """Return the path of an index; ``stamp`` is that of a remote object."""
        full = file.name if file.local_path is None else self._links.resolve(file.local_path)
        identity = os.fsencode(full) + (b"" if stamp is None else f" {stamp}".encode())
        name = digest_text(identity, size=10)
        if record_format.code != TFRECORD.code:  # a file may be read in several formats
            name += f"-{record_format.code:08x}"
        return os.path.join(self.root, f"{os.path.basename(full)[:80]}-{name}{SUFFIX}")


class _Search(NamedTuple):
    """Search for the index of a file.

    Attributes:
        file: Data file.
        compression: Compression that the user gave.
        record_format: Record format of the file.
        facts: Facts of the index of the object as it was listed, if they are known.
        max_index_bytes: Most bytes that a new index may have; see :meth:`RecordIndex.build`.
        verify_crc: See :meth:`RecordIndex.build_partial`.
    """

    file: Location
    compression: CompressionChoice = "auto"
    record_format: RecordFormat = TFRECORD
    facts: IndexFacts | None = None
    max_index_bytes: int | None = None
    verify_crc: bool = True

    def build(self) -> tuple[RecordIndex, TorchRecIOError | None]:
        """Build the index, as far as the file is not damaged."""
        return RecordIndex.build_partial(
            self.file,
            compression=self.compression,
            format=self.record_format,
            max_index_bytes=self.max_index_bytes,
            verify_crc=self.verify_crc,
        )


def cache_path(data_path: StrPath, record_format: RecordFormat = TFRECORD) -> Path:
    """Return where the index of a data file is kept that has none beside it.

    It is in the :func:`cache_folder`.
    """
    return Path(_Cache().path(Location.of(data_path), record_format))


def has_writable_cache() -> bool:
    """Return whether the cache directory can be written, so that processes can share indexes."""
    root = cache_folder()
    try:
        make_cache_folder(root)
    except OSError:
        return False
    return os.access(root, os.W_OK | os.X_OK)


def find_or_build(
    file: Location, compression: CompressionChoice = "auto", *, verify_crc: bool = True
) -> tuple[RecordIndex, TorchRecIOError | None]:
    """Return the index of a data file: the one beside it, else the cached one, else a new one.

    A new index is saved in the cache, never beside the data. The index of a damaged file is not
    saved.

    Returns:
        The index, and the damage that ended building it early, if any.
    """
    return _find_or_build(_Search(file, compression, verify_crc=verify_crc), _Cache())


def find_matching(file: Location) -> RecordIndex | None:
    """Return the index of a data file that exists, beside it or in the cache; None without one."""
    return _find(_Search(file), _Cache())[0]


def open_indexes(
    files: Sequence[Location],
    index: IndexChoice,
    compression: CompressionChoice,
    record_format: RecordFormat = TFRECORD,
    *,
    allow_missing: bool = False,
    max_index_bytes: int | None = None,
    verify_crc: bool = True,
) -> tuple[list[RecordIndex], list[TorchRecIOError]]:
    """Return the indexes of several data files, opened in a pool of threads.

    Args:
        files: Data files.
        index: ``"auto"`` to find or build each index (:func:`find_or_build`); or the index file of
            each data file, a path or several.
        compression: Compression of the files: ``"auto"`` (by content), None, ``"gzip"``,
            ``"zlib"`` or ``"zstd"``.
        record_format: Record format of the files.
        allow_missing: Whether given indexes may leave out records of their files.
        max_index_bytes: Most bytes that a new index may have; see :meth:`RecordIndex.build`.
        verify_crc: See :meth:`RecordIndex.build_partial`.

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
        cache = _Cache()
        listed = find_facts(files, compression, record_format)

        def find(file: Location) -> tuple[RecordIndex, TorchRecIOError | None]:
            facts = listed.get(file)
            search = _Search(file, compression, record_format, facts, max_index_bytes, verify_crc)
            return _find_or_build(search, cache) if facts is None else (_defer(search, facts), None)

        found = map_in_threads(find, files, threads)
        return [built for built, _ in found], [error for _, error in found if error is not None]
    names = [index] if isinstance(index, (str, os.PathLike)) else list(index)
    if len(names) != len(files):
        raise ValueError(
            f"index must have {counted(len(files), 'path')}, one for each data file, got "
            f"{len(names)}"
        )
    pairs = list(zip(names, files, strict=True))

    def load(pair: tuple[StrPath, Location]) -> RecordIndex:
        return RecordIndex.load(*pair, format=record_format, allow_missing=allow_missing)

    indexes = map_in_threads(load, pairs, threads)
    return indexes, [error for index in indexes if (error := index.damage()) is not None]


def find_indexes(files: Sequence[Location]) -> list[RecordIndex | None]:
    """Return the indexes of TFRecord files that exist, each beside its file or in the cache.

    They are looked for in a pool of threads.

    Args:
        files: Data files.

    Returns:
        An index for each file; None if it does not exist.
    """
    cache = _Cache()
    listed = find_facts(files, "auto", TFRECORD)

    def find(file: Location) -> RecordIndex | None:
        return _find(_Search(file, facts=listed.get(file)), cache)[0]

    return map_in_threads(find, files, threads_for(files))


def keep_index(index: RecordIndex) -> None:
    """Save a new index in the cache, if that can be written."""
    stamp = index.data_stamp if index.location.local_path is None else None
    _save_to_cache(index, _Cache().path(index.location, index.format, stamp))


def load_deferred(indexes: Sequence[RecordIndex]) -> None:
    """Load those indexes that load on first use, in a pool of threads if there are several."""
    deferred = [index for index in indexes if not index.is_loaded]
    if len(deferred) > 1:
        logger.info("finding the indexes of %s", counted(len(deferred), "file"))
        threads = threads_for(index.location for index in deferred)
        map_in_threads(RecordIndex.check_unchanged, deferred, threads)


def _defer(search: _Search, facts: IndexFacts) -> DeferredIndex:
    """Return the index of a listed object, which is looked for on first use."""
    stamp = search.file.stamp()
    return DeferredIndex(
        search.file,
        facts,
        functools.partial(_find_deferred, search, stamp, search.file.beside(SUFFIX).seen_stamp),
        stamp=stamp,
        record_format=search.record_format,
    )


def _find_deferred(search: _Search, stamp: Stamp, beside: Stamp | None) -> RecordIndex:
    """Look for an index, maybe in another process than the one that listed the object.

    Args:
        search: The search.
        stamp: Stamp of the object when it was listed.
        beside: Stamp of the index beside it, if there was one.
    """
    for location, seen in ((search.file, stamp), (search.file.beside(SUFFIX), beside)):
        location.see(location.seen_stamp or seen)
    index, error = _find_or_build(search, _Cache())
    if error is not None:
        raise error
    return index


def _find_or_build(search: _Search, cache: _Cache) -> tuple[RecordIndex, TorchRecIOError | None]:
    if not search.record_format.is_cached:
        return search.build()
    found, cached = _find(search, cache)
    if found is not None:
        return found, None
    index, error = search.build()
    if error is None:
        _save_to_cache(index, cached)
    return index, error


def _find(search: _Search, cache: _Cache) -> tuple[RecordIndex | None, str]:
    """Return an index that exists, and where the cache has it, or could have it."""
    return (_find_remote if search.file.local_path is None else _find_local)(search, cache)


def _find_local(search: _Search, cache: _Cache) -> tuple[RecordIndex | None, str]:
    """Return the index beside a file, or the cached one; and the path of the latter."""
    found = _load_matching(search.file.beside(SUFFIX), search)
    cached = cache.path(search.file, search.record_format)
    if found is None and is_own_cache_file(cached):
        found = _load_matching(cached, search)
    return found, cached


def _find_remote(search: _Search, cache: _Cache) -> tuple[RecordIndex | None, str]:
    """Return the cached index of a remote object, or the one beside it; and the former's path.

    The name in the cache has the ETag of the object, so a cached index needs no request. An index
    beside the object is copied there, where it can be read by pages.
    """
    stamp = search.file.stamp()
    cached = cache.path(search.file, search.record_format, stamp)
    if is_own_cache_file(cached):
        has_identity = any(stamp.file)
        found = _load_of(cached, search, stamp) if has_identity else _load_matching(cached, search)
        if found is not None:
            return found, cached
    beside = search.file.beside(SUFFIX)
    if search.facts is None:
        found = _load_matching(beside, search)
    else:  # the object need not be read to find out whether the index is of it
        found = _load_of(beside, search, stamp)
    if found is not None:
        _save_to_cache(found, cached)
    return found, cached


def _load_of(candidate: StrPath, search: _Search, stamp: Stamp) -> RecordIndex | None:
    """Return the index in a file, which was made of an object with this stamp.

    None if it does not exist, or was not made of that.
    """
    found = _if_matching(
        lambda: RecordIndex.load_cached(candidate, search.file, search.record_format, stamp), search
    )
    if found is None or search.facts is None or found.identity == search.facts[:3]:
        return found
    logger.info(
        "building a new index: %s is of another version of %s",
        printable(candidate),
        printable(search.file),
    )
    return None


def _load_matching(candidate: StrPath, search: _Search) -> RecordIndex | None:
    """Return the index in a file; None if it does not exist, or does not match the data file."""
    return _if_matching(
        lambda: RecordIndex.load(candidate, search.file, format=search.record_format), search
    )


def _if_matching(load: Callable[[], RecordIndex], search: _Search) -> RecordIndex | None:
    """Return the index that a function loads; None if there is none that matches."""
    try:
        index = load()
    except FileNotFoundError:
        return None
    except (IndexFormatError, StaleIndexError, OSError) as error:
        # If the data file cannot be read, building an index raises the error.
        logger.info("building a new index: %s", error)
        return None
    if index.gaps:
        # Scanning the file tells what is damaged, and finds all records that a text index left out.
        logger.info("building a new index: %s has gaps", printable(index.index_path))
        return None
    is_plain = index.compression is None
    if index.is_data_touched and is_plain and not search.record_format.is_self_checking:
        # Lines may have moved between those that were sampled, and reading them would not show it.
        logger.info("building a new index: %s was written after its index", printable(search.file))
        return None
    if index.lacks_seek_points:
        # Decompressing much of the file for each random read takes longer than indexing it again.
        logger.info("building a new index: %s has no seek points", printable(index.index_path))
        return None
    return index if search.compression in ("auto", index.compression) else None


def _save_to_cache(index: RecordIndex, target: str) -> None:
    if not index.is_verified:
        return
    try:
        index.save_to_cache(target)
    except OSError as error:  # for example a read-only home directory
        logger.info("the index is not saved in the cache: %s", error)
