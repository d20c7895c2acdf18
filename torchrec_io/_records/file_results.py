"""Results of passes over the records of files, which are cached in the user's cache directory.

They are kept beside the indexes, one file for each data file and pass.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .._storage.byte_source import Ints
from .._storage.cached_result import UnusableError, read_result, write_result
from .._storage.digest import digest_text
from .._storage.thread_pool import map_in_threads, most_storage_threads
from ..checks import counted, printable
from .index import RecordIndex
from .index_cache import cache_path
from .record_reader import ReadPlan, RecordReader
from .record_size import MAX_RECORD_BYTES
from .scan import scan

logger = logging.getLogger("torchrec_io")

Results: TypeAlias = list[npt.NDArray[Any]]
# Returns the results of the records of a plan, arrays whose first dimensions grow with the records,
# and whether all records are valid.
Visit: TypeAlias = Callable[[ReadPlan], tuple[Results, bool]]

_RECORDS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class FilePass:
    """A pass over the records of files.

    Attributes:
        what: Plural of its results, such as "lengths".
        identity: Text that identifies the pass.
        suffix: Suffix of files in the cache.
        dtypes: Dtype of each array.
        visit: Called with plans of consecutive records, from several threads.
    """

    what: str
    identity: str
    suffix: str
    dtypes: Sequence[str]
    visit: Visit


def find_results(reader: RecordReader, found_by: FilePass) -> list[Results]:
    """Return the results of a pass for each file of a reader, from the cache where it has them.

    Those of a file with a record that is not valid are not cached.

    Args:
        reader: Reader of the files.
        found_by: The pass.

    Returns:
        The arrays of each file.

    Raises:
        TruncatedFileError, StaleIndexError, OSError: If the files are not those that were indexed.
    """
    firsts = itertools.accumulate(map(len, reader.indexes), initial=0)
    numbered = [*zip(reader.indexes, firsts, strict=False)]

    def file_of(item: tuple[RecordIndex, int]) -> _File:
        return _File(*item, found_by, reader)

    files = map_in_threads(file_of, numbered)  # an index may have to be read first
    unknown = [file for file in files if not file.load()]
    if unknown:
        _visit_files(unknown, reader, found_by)
    return [file.results for file in files]


class _File:
    """The results of one data file.

    Attributes:
        first: Number of its first record among those of all files.
        size: Number of its records.
        results: The arrays, once they are known.
    """

    def __init__(
        self, index: RecordIndex, first: int, found_by: FilePass, reader: RecordReader
    ) -> None:
        self.first = first
        self.size = len(index)
        self.results: Results = [np.empty(0, dtype) for dtype in found_by.dtypes]
        self._what = found_by.what
        # The index and the fingerprint do not show every change of the data; the time does.
        changed = index.find_change_time()
        # Without checks of CRCs a damaged record may have a result, too.
        text = found_by.identity if reader.verify_crc else f"{found_by.identity}, unchecked"
        if reader.max_record_bytes != MAX_RECORD_BYTES:
            text += f", up to {reader.max_record_bytes} bytes"
        self._digest = digest_text(f"{changed}:{text}:", index.file.head, size=16)
        # Results of earlier data are overwritten.
        suffix = f".{digest_text(text, size=6)}{found_by.suffix}"
        self._path = cache_path(index.data_path).with_suffix(suffix)

    def load(self) -> bool:
        """Load cached results; return whether there are valid ones."""
        if not self.size:
            return True
        try:
            cached, data = read_result(self._path)
            if cached["data"] != self._digest:
                raise UnusableError("they belong to other data")
            found = [*self._arrays(data, cached["sizes"])]
            if len(found[0]) != self.size:
                raise UnusableError("they are not valid")
        except FileNotFoundError:
            return False
        except (UnusableError, ValueError, KeyError, TypeError, IndexError) as reason:
            path = printable(self._path)
            logger.info("%s in %s are not used: %s", self._what, path, reason)
            return False
        self.results = found
        return True

    def _arrays(self, data: bytes, sizes: Sequence[int]) -> Iterator[npt.NDArray[Any]]:
        at = 0
        for array, size in zip(self.results, sizes, strict=True):
            yield np.frombuffer(data, array.dtype, size, at)
            at += size * array.itemsize

    def save(self, parts: Sequence[Results], *, is_valid: bool) -> None:
        """Take the results of the records, and write them to the cache if this is possible."""
        columns = zip(*parts, strict=True)
        self.results = [
            np.concatenate(column).astype(array.dtype)
            for column, array in zip(columns, self.results, strict=True)
        ]
        if not is_valid:
            return
        facts = {"data": self._digest, "sizes": [len(array) for array in self.results]}
        try:
            write_result(self._path, facts, b"".join(array.tobytes() for array in self.results))
        except OSError as error:  # such as a read-only home; they stay in memory
            logger.info("%s cannot be cached: %s", self._what, error)

    def parts(self) -> Iterator[Ints]:
        """Yield the numbers of the records in parts; int64 ``[n]`` each."""
        for at in range(0, self.size, _RECORDS_AT_ONCE):
            yield self.first + np.arange(at, min(self.size, at + _RECORDS_AT_ONCE))


def _visit_files(files: list[_File], reader: RecordReader, found_by: FilePass) -> None:
    """Find the results of files by a pass over their records, and cache them."""
    total = sum(file.size for file in files)
    what = found_by.what
    logger.info("finding the %s of %s", what, counted(total, "record"))

    def visit_block(plan: ReadPlan) -> tuple[int, Results, bool]:
        return len(plan.numbers), *found_by.visit(plan)

    parts = itertools.chain.from_iterable(file.parts() for file in files)
    damaged = 0
    with closing(scan(reader, parts, visit_block, most_storage_threads())) as blocks:
        for file in files:
            left, found, is_valid = file.size, [], True
            while left:
                count, results, is_block_valid = next(blocks)
                found.append(results)
                is_valid &= is_block_valid
                left -= count
            file.save(found, is_valid=is_valid)
            damaged += not is_valid
    if damaged:
        number = counted(damaged, "file")
        logger.info("%s of %s with damaged records are not cached", what, number)
