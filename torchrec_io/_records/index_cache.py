"""Lookup of indexes: beside the data files, in the user's cache directory, or by building them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .._storage.cache_folder import cache_folder, is_own_cache_file, make_cache_folder
from .._storage.compression import CompressionChoice
from .._storage.digest import digest_text
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.stamp import Stamp
from ..errors import IndexFormatError, StaleIndexError
from .formats import TFRECORD, RecordFormat
from .index import RecordIndex
from .index_file import SUFFIX, IndexFile

logger = logging.getLogger("torchrec_io")


def cache_path(
    data_path: StrPath, record_format: RecordFormat = TFRECORD, stamp: Stamp | None = None
) -> Path:
    """Return the path of an index file that cannot be kept beside its data file.

    It is in the :func:`cache_folder`. Links to a file share its index, and each version of an
    object has its own.

    Args:
        data_path: Data file.
        record_format: Record format of the file.
        stamp: Stamp of the object, if it is one.
    """
    full = Location.of(data_path).identity
    version = b"" if stamp is None else f" {stamp}".encode()
    name = digest_text(os.fsencode(full) + version, size=10)
    if record_format.code != TFRECORD.code:  # a file may be read in several formats
        name += f"-{record_format.code:08x}"
    return Path(cache_folder(), f"{os.path.basename(full)[:80]}-{name}{SUFFIX}")


def has_writable_cache() -> bool:
    """Return whether the cache directory can be written, so that processes can share indexes."""
    root = cache_folder()
    try:
        make_cache_folder(root)
    except OSError:
        return False
    return os.access(root, os.W_OK | os.X_OK)


class IndexSearch(NamedTuple):
    """Search for the index of a data file.

    Attributes:
        file: Data file.
        compression: Compression that the user gave.
        record_format: Record format of the file.
        verify_crc: See :meth:`RecordIndex.build`.
        advanced: Function that is called with the number of bytes read since the last call.
    """

    file: Location
    compression: CompressionChoice = "auto"
    record_format: RecordFormat = TFRECORD
    verify_crc: bool = True
    advanced: Callable[[int], object] | None = None

    def find_or_build(self) -> RecordIndex:
        """Return the index beside the data file, else the cached one, else a new one.

        A new index is saved in the cache, never beside the data. The index of a damaged file has
        the records before the damage. It is not saved.
        """
        is_cached = self.record_format.is_cached
        if is_cached and (found := self.find()) is not None:
            return found
        seen = 0

        def progress(file_bytes: int, _: int) -> None:
            nonlocal seen
            if self.advanced is not None:
                self.advanced(file_bytes - seen)
            seen = file_bytes

        index = RecordIndex.build(
            self.file,
            compression=self.compression,
            format=self.record_format,
            progress=progress,
            verify_crc=self.verify_crc,
            allow_damage=True,
        )
        if is_cached:
            keep_index(index)
        return index

    def find(self) -> RecordIndex | None:
        """Return the index of a file that exists, beside it or in the cache; None without one."""
        file, is_object = self.file, self.file.local_path is None
        stamp = file.stamp() if is_object else None
        beside = file.beside(SUFFIX)
        cached = Location(str(cache_path(file, self.record_format, stamp)))
        for place in (cached, beside) if is_object else (beside, cached):
            if place is cached and not is_own_cache_file(cached):
                continue
            # The name in the cache has the ETag of an object, if there is one: it is not read then.
            is_known = stamp is not None and place is cached and any(stamp.file)
            found = self._load(place, stamp if is_known else None)
            if found is not None:
                if is_object and place is beside:
                    keep_index(found)  # in the cache it can be read by pages
                return found
        return None

    def _load(self, place: Location, known: Stamp | None) -> RecordIndex | None:
        """Return the index in a file; None if it does not exist, or does not match the data file.

        Args:
            place: Index file.
            known: Stamp of the data file if the index is known to be of this version.
        """
        try:
            content = IndexFile.read(place.open())
            index = RecordIndex(self.file, content, self.record_format, stamp=known)
            if known is None:
                index.check_fresh()
            reason = None
            if self.compression not in ("auto", index.compression):
                reason = "the index is of another compression"
            elif index.gaps:
                # Scanning the file tells what is damaged.
                reason = "the index has gaps"
            if reason is not None:
                raise StaleIndexError(reason, path=place.name)
        except FileNotFoundError:
            return None
        except (IndexFormatError, StaleIndexError, OSError) as error:
            # If the data file cannot be read, building an index raises the error.
            logger.info("building a new index: %s", error)
            return None
        return index


def keep_index(index: RecordIndex) -> None:
    """Save a new index in the cache, if that can be written, unless its file is damaged."""
    if not index.is_verified or index.damage is not None:
        return
    stamp = index.data_stamp if index.location.local_path is None else None
    try:
        index.file.save(cache_path(index.location, index.format, stamp), durable=False)
    except OSError as error:  # for example a read-only home directory
        logger.info("the index is not saved in the cache: %s", error)
