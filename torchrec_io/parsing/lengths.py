"""Lengths of records: the number of values that each record has of a feature.

Finding them takes one pass over the data. It uses the first pass of the parser, which decodes no
value. They are cached in the user's cache directory beside the indexes.
"""

from __future__ import annotations

import itertools
import logging
import os
import time
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..checks import counted, printable
from ..records.index import RecordIndex
from ..records.index_cache import cache_path
from ..records.record_block import RecordBlock
from ..records.record_reader import RecordReader
from ..records.record_size import MAX_RECORD_BYTES
from ..schema.feature import Place
from ..schema.schema import Schema
from ..schema.specs import VarLenFeature
from ..storage.cache_folder import is_own_cache_file, write_cached
from ..storage.digest import digest, digest_text
from ..storage.ordered_pool import OrderedPool
from ..storage.thread_pool import map_in_threads, most_storage_threads
from .columns.base import Ints, LocatedBlock
from .parser import ExampleParser

logger = logging.getLogger("torchrec_io")

SUFFIX = ".tflen"

_MAGIC = b"\x89TFLEN\r\n"
_DIGEST_BYTES = 16
_HEAD_BYTES = len(_MAGIC) + _DIGEST_BYTES + 1  # the last byte is the size of one length
# Limits of the records that are read at once.
_RECORDS_AT_ONCE = 1 << 16
_BYTES_AT_ONCE = 1 << 22
_SECONDS_BETWEEN_REPORTS = 10.0


@dataclass(frozen=True)
class LengthFeature:
    """A feature that measures records: their length is its number of values.

    Its ``repr`` identifies the lengths in the cache.

    Attributes:
        key: Name of the stored feature.
        dtype: Dtype of its values.
        place: "example", or the "context" or "sequence" of a SequenceExample. In a sequence the
            steps are counted, not their values.
        part: Number of values that count as one.
    """

    key: str
    dtype: str
    place: Place
    part: int = 1

    @classmethod
    def all_of(cls, schema: Schema) -> dict[str, LengthFeature]:
        """Return the features of a schema that records can have their lengths from, by name."""
        found: dict[str, LengthFeature] = {}
        for name, feature in schema.items():
            count = feature.length_count(name)
            if count is None:
                continue
            if schema.sequence is not None and name in schema.sequence:
                found[name] = cls(count.key, count.dtype, "sequence")
            else:
                place: Place = "context" if schema.is_sequence else "example"
                found[name] = cls(count.key, count.dtype, place, count.values_per_item)
        return found

    def parser(self) -> ExampleParser:
        """Return a parser that locates only this feature, which records may lack."""
        spec = {self.key: VarLenFeature(self.dtype)}
        part = "features" if self.place == "example" else self.place
        return ExampleParser(Schema(**{part: spec}))

    def lengths_of(self, parser: ExampleParser, block: RecordBlock) -> tuple[Ints, RecordBlock]:
        """Return the lengths of the records of a block that can be parsed, and these records."""
        located, block = locate_sound(parser, block)
        offsets, units = located.counts(0)
        return -(np.diff(units if self.place == "sequence" else offsets) // -self.part), block


def locate_sound(parser: ExampleParser, block: RecordBlock) -> tuple[LocatedBlock, RecordBlock]:
    """Locate the values of the records of a block that can be parsed, and return these records."""
    located = parser.locate(block)
    if located.failures:
        block = block.without(sorted({failure.position for failure in located.failures}))
        located = parser.locate(block)
    return located, block


class LengthMeasure(Protocol):
    """Measures the length of records. Its ``repr`` identifies the lengths in the cache."""

    @property
    def key(self) -> str:
        """Name of the counted values, for messages."""

    def parser(self) -> ExampleParser:
        """Return a parser that locates the counted values."""

    def lengths_of(self, parser: ExampleParser, block: RecordBlock) -> tuple[Ints, RecordBlock]:
        """Return the lengths of the records of a block that can be parsed, and these records."""


def find_lengths(
    reader: RecordReader, measure: LengthMeasure, unreadable: int = 0
) -> npt.NDArray[np.int64]:
    """Return the length of each record of a reader's files, from the cache where it has them.

    The lengths of a file with a record that cannot be read or parsed are not cached.

    Args:
        reader: Reader of the files.
        measure: Measure of the length of records.
        unreadable: Length of a record that cannot be read or parsed.

    Returns:
        Lengths by record number; int64 ``[N]``.

    Raises:
        TruncatedFileError, StaleIndexError, OSError: If the files are not those that were indexed.
    """
    lengths = np.full(len(reader), unreadable, np.int64)
    firsts = itertools.accumulate(map(len, reader.indexes), initial=0)
    nonempty = [
        (index, first) for index, first in zip(reader.indexes, firsts, strict=False) if len(index)
    ]

    def file_of(item: tuple[RecordIndex, int]) -> _File:
        return _File(*item, measure, reader)

    files = map_in_threads(file_of, nonempty)  # an index may have to be read first
    unknown = [file for file in files if not file.load(lengths, least=unreadable)]
    if unknown:
        _measure_files(unknown, reader, measure, lengths)
    return lengths


class _File:
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
        self._index = index
        # The index and the fingerprint do not show every change of the data; the time does.
        changed = index.find_change_time()
        # Without checks of CRCs a damaged record may have a length, too.
        text = f"{measure}" if reader.verify_crc else f"{measure}, unchecked"
        if reader.max_record_bytes != MAX_RECORD_BYTES:
            text += f", up to {reader.max_record_bytes} bytes"
        self.name = digest(f"{changed}:{text}:", index.file.head, size=_DIGEST_BYTES)
        # One file for each feature. Lengths of earlier data are overwritten.
        suffix = f".{digest_text(text, size=6)}{SUFFIX}"
        self.path = cache_path(index.data_path).with_suffix(suffix)

    def load(self, lengths: Ints, least: int = 0) -> bool:
        """Copy the cached lengths; return whether there are valid ones, none below ``least``."""
        try:
            with open(self.path, "rb") as file:
                if not is_own_cache_file(self.path, os.fstat(file.fileno())):
                    return False
                cached = file.read(_HEAD_BYTES + 8 * self.size + _DIGEST_BYTES + 1)
        except OSError:
            return False
        body, check = cached[:-_DIGEST_BYTES], cached[-_DIGEST_BYTES:]
        width = body[_HEAD_BYTES - 1] if len(body) >= _HEAD_BYTES else 0
        if (
            body[: _HEAD_BYTES - 1] != _MAGIC + self.name
            or width not in (4, 8)
            or len(body) != _HEAD_BYTES + width * self.size
            or digest(body, size=_DIGEST_BYTES) != check
        ):
            logger.info("lengths in %s belong to other data and are not used", printable(self.path))
            return False
        found = np.frombuffer(body, f"<i{width}", offset=_HEAD_BYTES)
        if found.min() < least:
            logger.info("lengths in %s are not valid and are not used", printable(self.path))
            return False
        lengths[self.first : self.first + self.size] = found
        return True

    def save(self, lengths: Ints) -> None:
        """Write the lengths to the cache, if this is possible."""
        own = lengths[self.first : self.first + self.size]
        width = 4 if own.max() < 2**31 else 8
        body = _MAGIC + self.name + bytes([width]) + own.astype(f"<i{width}").tobytes()
        try:
            check = digest(body, size=_DIGEST_BYTES)
            write_cached(self.path, body + check)
        except OSError as error:  # such as a read-only home; they stay in memory
            logger.info("lengths cannot be cached: %s", error)

    def parts(self) -> list[range]:
        """Return the numbers of the records of each part, which a thread reads."""
        starts = self._index.offsets
        # A compressed file is read from front to back.
        is_whole = self._index.compression is not None
        count = 1 if is_whole else 1 + int(starts[-1] - starts[0]) // _BYTES_AT_ONCE
        bounds = [self.first + self.size * part // count for part in range(count + 1)]
        return [range(begin, end) for begin, end in itertools.pairwise(bounds)]


def _measure_files(
    files: list[_File], reader: RecordReader, measure: LengthMeasure, lengths: Ints
) -> None:
    """Find the lengths of files by a pass over their records, and cache them."""

    def find_in(part: range) -> bool:
        """Find the lengths of some records; return whether all of them can be parsed."""
        parser = measure.parser()
        is_sound = True
        numbers = np.arange(part.start, part.stop)
        for plan in reader.plans(numbers, _RECORDS_AT_ONCE, _BYTES_AT_ONCE):
            block, errors = reader.fetch(plan)
            found, parsed = measure.lengths_of(parser, block)
            lengths[parsed.numbers] = found
            is_sound = is_sound and not errors and len(parsed) == len(block)
        return is_sound

    total = sum(file.size for file in files)
    logger.info("finding the lengths of %s by %r", counted(total, "record"), measure.key)
    parts_of = [file.parts() for file in files]
    damaged = done = 0
    reported = time.monotonic()
    with OrderedPool(find_in, most_storage_threads()) as pool:
        results = pool.map(itertools.chain.from_iterable(parts_of))
        for file, parts in zip(files, parts_of, strict=True):
            is_sound = True
            for part in parts:
                is_sound &= next(results)
                done += len(part)
                if time.monotonic() > reported + _SECONDS_BETWEEN_REPORTS:
                    reported = time.monotonic()
                    logger.info("found the lengths of %d of %d records", done, total)
            if is_sound:
                file.save(lengths)
            damaged += not is_sound
    if damaged:
        number_text = counted(damaged, "file")
        logger.info("lengths of %s with damaged records are not cached", number_text)
