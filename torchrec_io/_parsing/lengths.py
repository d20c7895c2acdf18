"""Lengths of records: the number of values that each record has of a feature.

Finding them takes one pass over the data. It uses the first pass of the parser, which decodes no
value. They are cached in the user's cache directory beside the indexes.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from .._records.index import RecordIndex
from .._records.index_cache import cache_path
from .._records.record_block import RecordBlock
from .._records.record_reader import ReadPlan, RecordReader
from .._records.record_size import MAX_RECORD_BYTES
from .._records.scan import scan
from .._schema.dtypes import DTypeName, stored_dtype
from .._schema.feature import Place
from .._schema.schema import Schema
from .._schema.specs import VarLenFeature
from .._schema.stored_keys import StoredCount
from .._storage.cached_result import UnusableError, read_result, write_result
from .._storage.digest import digest_text
from .._storage.thread_pool import map_in_threads, most_storage_threads
from ..checks import counted, printable
from .arrays import Ints
from .columns.base import LocatedBlock
from .failures import RecordFailure
from .parser import ExampleParser
from .valid_records import parse_valid

logger = logging.getLogger("torchrec_io")

SUFFIX = ".tflen"
# Length of a record that is not known.
UNKNOWN = -1

_RECORDS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class LengthMeasure:
    """The length of records: the number of items of one or several stored features.

    Its ``repr`` identifies the lengths in the cache.

    Attributes:
        counts: Stored values that are counted. In a valid record all give the same number of items.
        place: "example", or the "context" or "sequence" of a SequenceExample. In a sequence the
            steps are counted, not their values.
    """

    counts: tuple[StoredCount, ...]
    place: Place = "example"

    @classmethod
    def all_of(cls, schema: Schema) -> dict[str, LengthMeasure]:
        """Return the lengths of each feature of a schema that has some, by name."""
        found: dict[str, LengthMeasure] = {}
        for name, feature in schema.items():
            count = feature.length_count(name)
            if count is None:
                continue
            is_list = schema.sequence is not None and name in schema.sequence
            place: Place = "context" if schema.is_sequence else "example"
            found[name] = cls((count,), "sequence" if is_list else place)
        return found

    def parser(self) -> ExampleParser:
        """Return a parser that locates only the counted values, which records may lack."""
        specs = {key: VarLenFeature(dtype) for key, dtype in self._dtypes().items()}
        part = "features" if self.place == "example" else self.place
        return ExampleParser(Schema(**{part: specs}))

    def counted_in(self, located: LocatedBlock) -> Ints:
        """Return the number of items of each record by each count; int64 ``[counts, B]``.

        Args:
            located: Records that the measure's parser has located.
        """
        specs = list(self._dtypes())
        found: list[Ints] = []
        for count in self.counts:
            units = located.located.units(specs.index(count.key))
            sizes = np.diff(units.records if self.place == "sequence" else units.values)
            # Incomplete items are rounded up: parsing the record reports them.
            found.append(-(sizes // -count.values_per_item))
        return np.stack(found)

    def lengths_of(self, parser: ExampleParser, block: RecordBlock) -> tuple[Ints, RecordBlock]:
        """Return the lengths of the records of a block that can be parsed, and these records.

        Args:
            parser: The measure's parser.
            block: The records.
        """

        def count(part: RecordBlock) -> tuple[Ints, RecordBlock] | list[RecordFailure]:
            located = parser.locate(part)
            return located.failures or (self.counted_in(located), part)

        (counts, valid), _ = parse_valid(block, count)
        return np.where((counts == counts[0]).all(axis=0), counts[0], UNKNOWN), valid

    def _dtypes(self) -> dict[str, DTypeName]:
        """Return the stored dtype of each stored feature that is counted."""
        return {count.key: stored_dtype(count.dtype) for count in self.counts}


def find_lengths(reader: RecordReader, measure: LengthMeasure) -> Ints:
    """Return the length of each record of a reader's files, from the cache where it has them.

    The lengths of a file with a record that cannot be read or parsed are not cached.

    Args:
        reader: Reader of the files.
        measure: Measure of the length of records.

    Returns:
        Lengths by record number; int64 ``[N]``. :data:`UNKNOWN` for a record that cannot be read or
        parsed, or whose counts differ.

    Raises:
        TruncatedFileError, StaleIndexError, OSError: If the files are not those that were indexed.
    """
    lengths = np.full(len(reader), UNKNOWN, np.int64)
    firsts = itertools.accumulate(map(len, reader.indexes), initial=0)
    nonempty = [
        (index, first) for index, first in zip(reader.indexes, firsts, strict=False) if len(index)
    ]

    def file_of(item: tuple[RecordIndex, int]) -> _FileLengths:
        return _FileLengths(*item, measure, reader)

    files = map_in_threads(file_of, nonempty)  # an index may have to be read first
    unknown = [file for file in files if not file.load(lengths)]
    if unknown:
        _measure_files(unknown, reader, measure, lengths)
    return lengths


class _FileLengths:
    """The cached lengths of one data file.

    Attributes:
        first: Number of its first record among those of all files.
        size: Number of its records.
        name: Digest that distinguishes the lengths from those of other data and other features.
        path: Path of the file in the cache.
    """

    def __init__(
        self, index: RecordIndex, first: int, measure: LengthMeasure, reader: RecordReader
    ) -> None:
        self.first = first
        self.size = len(index)
        # The index and the fingerprint do not show every change of the data; the time does.
        changed = index.find_change_time()
        # Without checks of CRCs a damaged record may have a length, too.
        text = f"{measure}" if reader.verify_crc else f"{measure}, unchecked"
        if reader.max_record_bytes != MAX_RECORD_BYTES:
            text += f", up to {reader.max_record_bytes} bytes"
        self.name = digest_text(f"{changed}:{text}:", index.file.head, size=16)
        # One file for each feature. Lengths of earlier data are overwritten.
        suffix = f".{digest_text(text, size=6)}{SUFFIX}"
        self.path = cache_path(index.data_path).with_suffix(suffix)

    def load(self, lengths: Ints) -> bool:
        """Copy the cached lengths; return whether there are valid ones."""
        try:
            cached, data = read_result(self.path)
            if cached["data"] != self.name:
                raise UnusableError("they belong to other data")
            found = np.frombuffer(data, "<i4")
            if len(found) != self.size or found.min() < UNKNOWN:
                raise UnusableError("they are not valid")
        except FileNotFoundError:
            return False
        except (UnusableError, ValueError, KeyError, TypeError) as reason:
            logger.info("lengths in %s are not used: %s", printable(self.path), reason)
            return False
        lengths[self.first : self.first + self.size] = found
        return True

    def save(self, lengths: Ints) -> None:
        """Write the lengths to the cache, if this is possible."""
        own = lengths[self.first : self.first + self.size]
        data = own.astype("<i4").tobytes()  # a record has less than 2 GiB, so fewer values
        try:
            write_result(self.path, {"data": self.name}, data)
        except OSError as error:  # such as a read-only home; they stay in memory
            logger.info("lengths cannot be cached: %s", error)

    def parts(self) -> Iterator[Ints]:
        """Yield the numbers of the records in parts; int64 ``[n]`` each."""
        for at in range(0, self.size, _RECORDS_AT_ONCE):
            yield self.first + np.arange(at, min(self.size, at + _RECORDS_AT_ONCE))


def _measure_files(
    files: list[_FileLengths], reader: RecordReader, measure: LengthMeasure, lengths: Ints
) -> None:
    """Find the lengths of files by a pass over their records, and cache them."""
    parser = measure.parser()

    def measure_block(plan: ReadPlan) -> tuple[int, bool]:
        """Find the lengths of some records; return their number, and whether all are valid."""
        block, errors = reader.fetch(plan)
        found, parsed = measure.lengths_of(parser, block)
        lengths[parsed.numbers] = found
        return len(plan.numbers), not errors and len(parsed) == len(block)

    total = sum(file.size for file in files)
    keys = ", ".join(repr(count.key) for count in measure.counts)
    logger.info("finding the lengths of %s by %s", counted(total, "record"), keys)
    parts = itertools.chain.from_iterable(file.parts() for file in files)
    damaged = 0
    with closing(scan(reader, parts, measure_block, most_storage_threads())) as blocks:
        for file in files:
            left, is_valid = file.size, True
            while left:
                count, is_block_valid = next(blocks)
                is_valid &= is_block_valid
                left -= count
            if is_valid:
                file.save(lengths)
            damaged += not is_valid
    if damaged:
        number_text = counted(damaged, "file")
        logger.info("lengths of %s with damaged records are not cached", number_text)
