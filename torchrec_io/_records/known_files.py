"""Facts about many indexed files, in one file of the user's cache directory.

With them a dataset of many files is opened without reading their indexes. The index of a file is
found on first use, and compared with the facts.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._storage.cache_folder import cache_folder
from .._storage.cached_result import UnusableError, read_result, write_result
from .._storage.compression import Compression
from .._storage.digest import digest_number, digest_text
from .._storage.stamp import Stamp
from ..checks import counted
from ..errors import StaleIndexError
from .index import RecordIndex
from .index_cache import IndexSearch
from .index_file import IndexFacts

logger = logging.getLogger("torchrec_io")

_COMPRESSIONS: tuple[Compression | None, ...] = (None, "gzip", "zlib", "zstd")
_FACTS = np.dtype(
    [("stamp", "<u8"), ("records", "<i8"), ("fingerprint", "<u8"), ("compression", "u1")]
)
_UNKNOWN = 0  # stands for the stamp of a file without facts


class KnownFiles:
    """Files that are searched for their indexes, and the facts that are known about them.

    Args:
        searches: A search for the index of each file.
        stamps: Stamp of each file.
    """

    def __init__(self, searches: Sequence[IndexSearch], stamps: Sequence[Stamp]) -> None:
        self._searches = searches
        self._stamps = stamps
        self._digests = np.array([_digest_of(stamp) for stamp in stamps], np.uint64)
        first = searches[0]
        how = f"{first.record_format.code}:{first.compression}:{first.verify_crc}:{os.getcwd()}"
        names = "\n".join(search.file.name for search in searches)
        name = digest_text(f"{how}\n{names}", size=16)
        self._path = Path(cache_folder(), f"files-{name}.facts")

    def load(self) -> list[RecordIndex | None]:
        """Return the index of each file that is as it was; None for the others."""
        facts = self._read()
        unchanged = (facts["stamp"] == self._digests) & (self._digests != _UNKNOWN)
        rows = zip(self._searches, self._stamps, facts.tolist(), unchanged.tolist(), strict=True)
        return [
            _deferred(search, stamp, row) if is_unchanged else None
            for search, stamp, row, is_unchanged in rows
        ]

    def _read(self) -> npt.NDArray[Any]:
        unknown = np.zeros(len(self._searches), _FACTS)
        try:
            _, data = read_result(self._path)
        except FileNotFoundError:
            return unknown
        except UnusableError as reason:
            logger.info("what is known about many files is not used: %s", reason)
            return unknown
        if len(data) != unknown.nbytes:
            return unknown
        facts = np.frombuffer(data, _FACTS)
        return facts if facts["compression"].max() < len(_COMPRESSIONS) else unknown

    def save(self, indexes: Sequence[RecordIndex]) -> None:
        """Keep the facts about the files, except damaged ones."""
        rows = [
            (stamp if index.is_verified and index.damage is None else _UNKNOWN, *_row_of(index))
            for stamp, index in zip(self._digests.tolist(), indexes, strict=True)
        ]
        facts = np.array(rows, _FACTS)
        try:
            write_result(self._path, {}, facts.tobytes())
        except OSError as error:  # for example a read-only home directory
            logger.info("what is known about many files is not kept: %s", error)


def _digest_of(stamp: Stamp) -> int:
    """Return a number that differs if a file has changed; 0 if a change might not show."""
    return digest_number(repr(stamp)) if any(stamp.file) else _UNKNOWN


def _row_of(index: RecordIndex) -> tuple[int, int, int]:
    records, _, fingerprint, compression = index.facts
    return records, fingerprint, _COMPRESSIONS.index(compression)


def _deferred(search: IndexSearch, stamp: Stamp, row: Sequence[int]) -> RecordIndex:
    """Return an index that is found on first use."""
    _, records, fingerprint, compression = row
    facts = IndexFacts(records, stamp.size, fingerprint, _COMPRESSIONS[compression])
    # A local file may be touched, or replaced by a copy, before it is used.
    seen = stamp if search.file.local_path is None else None
    find = functools.partial(_find, search._replace(advanced=None), stamp, facts)
    return RecordIndex(search.file, find, search.record_format, facts=facts, stamp=seen)


def _find(search: IndexSearch, stamp: Stamp, facts: IndexFacts) -> RecordIndex:
    search.file.see(search.file.seen_stamp or stamp)  # maybe in another process
    found = search.find_or_build()
    if found.damage is not None:
        raise found.damage
    if found.facts != facts:
        raise StaleIndexError(
            f"the file had {counted(facts.records, 'record')} when the dataset was opened, but "
            f"has another content with {counted(len(found), 'record')} now",
            path=found.data_path,
        )
    return found
