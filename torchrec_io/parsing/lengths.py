"""The lengths of all records: how many values each has of a feature.

They are found in one pass over the data, by the parser's first pass, which decodes no value, and
kept in the user's cache directory beside the indexes.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..records.index import RecordIndex
from ..records.index_cache import cache_path
from ..records.record_block import RecordBlock
from ..records.record_reader import RecordReader
from ..schema.schema import Schema
from ..schema.specs import Feature, FixedLenSequenceFeature, RaggedFeature, VarLenFeature
from ..storage.pending_file import write_atomically
from .columns.base import Ints
from .parser import ExampleParser, LocatedBlock

logger = logging.getLogger("torchrec_io")

SUFFIX = ".tflen"

_MAGIC = b"\x89TFLEN\r\n"
_DIGEST_BYTES = 16
_HEAD_BYTES = len(_MAGIC) + _DIGEST_BYTES + 1  # and the bytes of one length
# Records that are read at once; with a large one at the end they are more.
_BYTES_AT_ONCE = 1 << 22
_SECONDS_BETWEEN_REPORTS = 10.0


@dataclass(frozen=True)
class LengthFeature:
    """A feature whose number of values in a record is its length.

    Attributes:
        key: Its name, as stored.
        dtype: Of its values.
        place: ``"example"``, or the ``"context"`` or ``"sequence"`` of a SequenceExample; in the
            latter steps are counted, not their values.
        part: How many values count as one.
    """

    key: str
    dtype: str
    place: str
    part: int = 1

    @classmethod
    def all_of(cls, schema: Schema) -> dict[str, LengthFeature]:
        """Those that a schema has, by their names in it."""
        found = {}
        for name, feature in schema.context.items():
            place = "context" if schema.is_sequence else "example"
            found[name] = cls._made(name, feature, place)
        for name, feature in (schema.sequence or {}).items():
            found[name] = cls._made(name, feature, "sequence")
        return {name: feature for name, feature in found.items() if feature is not None}

    @classmethod
    def _made(cls, name: str, feature: Feature, place: str) -> LengthFeature | None:
        if isinstance(feature, FixedLenSequenceFeature):
            part = 1 if place == "sequence" else feature.count
            return cls(name, feature.dtype, place, part)
        if isinstance(feature, RaggedFeature):
            return cls(feature.value_key or name, feature.dtype, place)
        return cls(name, feature.dtype, place) if isinstance(feature, VarLenFeature) else None

    def parser(self) -> ExampleParser:
        """Finds the feature, and nothing else, in any record that has it or lacks it."""
        spec = {self.key: VarLenFeature(self.dtype)}
        if self.place == "example":
            return ExampleParser(Schema(spec))
        if self.place == "context":
            return ExampleParser(Schema(context=spec, sequence={}))
        return ExampleParser(Schema(context={}, sequence=spec))

    def lengths_of(self, parser: ExampleParser, block: RecordBlock) -> tuple[Ints, RecordBlock]:
        """Lengths of those records of a block that can be parsed, and these records."""
        located, block = locate_sound(parser, block)
        offsets, units = located.counts(0)
        return -(np.diff(units if self.place == "sequence" else offsets) // -self.part), block


def locate_sound(parser: ExampleParser, block: RecordBlock) -> tuple[LocatedBlock, RecordBlock]:
    """Those records of a block that can be parsed: where their values are, and themselves."""
    located = parser.locate(block)
    if located.failures:
        block = block.without(sorted({failure.position for failure in located.failures}))
        located = parser.locate(block)
    return located, block


class Measure(Protocol):
    """What says how long records are; its ``repr`` says all that lengths depend on."""

    @property
    def key(self) -> str:
        """What is counted, as people call it."""

    def parser(self) -> ExampleParser:
        """Finds what is counted, and nothing else."""

    def lengths_of(self, parser: ExampleParser, block: RecordBlock) -> tuple[Ints, RecordBlock]:
        """Lengths of those records of a block that can be parsed, and these records."""


def find_lengths(
    reader: RecordReader, feature: Measure, unreadable: int = 0
) -> npt.NDArray[np.int64]:
    """The length of each record of a reader's files, from the cache where they are known.

    The lengths of a file with a record that cannot be read or parsed are not kept, as its index
    would not be.

    Args:
        reader: Of the files.
        feature: What is counted.
        unreadable: The length of a record that cannot be read or parsed.

    Returns:
        int64 ``[N]``, by record number.

    Raises:
        TruncatedFileError, StaleIndexError, OSError: the files are not what was indexed.
    """
    lengths = np.full(len(reader), unreadable, np.int64)
    firsts = itertools.accumulate(map(len, reader.indexes), initial=0)
    there = [
        (index, first) for index, first in zip(reader.indexes, firsts, strict=False) if len(index)
    ]
    with _threads() as pool:  # an index may have to be found first
        made = pool.map(lambda at: _File(at[0], at[1], feature, checked=reader.verify_crc), there)
        files = [*made]
    unknown = [file for file in files if not file.load(lengths)]
    if unknown:
        _Search(reader, feature, lengths).find(unknown)
    return lengths


class _File:
    """Where the lengths of one data file are kept.

    Attributes:
        first: The number of its first record among all.
        size: How many records it has.
        name: What tells the lengths from those of other data and of other features.
        path: The file in the cache.
    """

    def __init__(self, index: RecordIndex, first: int, feature: Measure, *, checked: bool) -> None:
        self.first = first
        self.size = len(index)
        self._index = index
        # Data may change in the middle, where its fingerprint does not look; lengths may change
        # where no record does its size, so that even the offsets stay.
        changed = None if index.data_stamp is None else index.data_stamp.mtime_ns
        # A record that is damaged may have a length, if nobody looks at its checksum.
        counted = f"{feature}" if checked else f"{feature}, unchecked"
        text = f"{changed}:{counted}:"
        digest = hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES)
        digest.update(index.file_bytes.data)  # which data it is, and where its records are
        self.name = digest.digest()
        # Features of one file are kept side by side; what the file was before is written over.
        of_feature = hashlib.blake2b(counted.encode(), digest_size=6).hexdigest()
        self.path = cache_path(index.data_path).with_suffix(f".{of_feature}{SUFFIX}")

    def load(self, lengths: Ints) -> bool:
        """Fills in the lengths that are kept; False if none are, or none that fit."""
        try:
            with open(self.path, "rb") as file:
                kept = file.read(_HEAD_BYTES + 8 * self.size + _DIGEST_BYTES + 1)
        except OSError:
            return False
        body, check = kept[:-_DIGEST_BYTES], kept[-_DIGEST_BYTES:]
        width = body[_HEAD_BYTES - 1] if len(body) >= _HEAD_BYTES else 0
        if (
            body[: _HEAD_BYTES - 1] != _MAGIC + self.name
            or width not in (4, 8)
            or len(body) != _HEAD_BYTES + width * self.size
            or _digest(body) != check
        ):
            logger.info("lengths are found anew: those in %s are of other data", self.path)
            return False
        found = np.frombuffer(body, f"<i{width}", offset=_HEAD_BYTES)
        lengths[self.first : self.first + self.size] = found
        return True

    def save(self, lengths: Ints) -> None:
        """Keeps the lengths, if they can be."""
        own = lengths[self.first : self.first + self.size]
        width = 4 if own.max() < 2**31 else 8
        body = _MAGIC + self.name + bytes([width]) + own.astype(f"<i{width}").tobytes()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, body + _digest(body), durable=False)
        except OSError as error:  # a read-only home: they live in memory then
            logger.info("lengths are not kept in the cache: %s", error)

    def pieces(self) -> Iterator[list[tuple[int, int]]]:
        """Stretches of records that are read at once; those of one list one after the other."""
        starts = self._index.offsets
        pieces = (starts - starts[0]) // _BYTES_AT_ONCE
        cuts = [0, *(np.flatnonzero(np.diff(pieces)) + 1).tolist(), self.size]
        stretches = [
            (self.first + begin, self.first + end) for begin, end in itertools.pairwise(cuts)
        ]
        # A compressed file is best read from front to back.
        yield from [[one] for one in stretches] if self._index.compression is None else [stretches]


class _Search:
    """The pass over files whose lengths are not known."""

    def __init__(self, reader: RecordReader, feature: Measure, lengths: Ints) -> None:
        self._reader = reader
        self._feature = feature
        self._lengths = lengths

    def find(self, files: list[_File]) -> None:
        """Fills in the lengths of files, and keeps them."""
        total = sum(file.size for file in files)
        key = self._feature.key
        logger.info("finding the lengths of %d records by %r", total, key)
        tasks = [(file, stretches) for file in files for stretches in file.pieces()]
        last_of = {file: number for number, (file, _) in enumerate(tasks)}
        damaged: set[_File] = set()
        done, told = 0, time.monotonic()
        kept: list[Future[None]] = []
        with _threads() as pool, _threads() as saver:
            results = pool.map(self._measure, [stretches for _, stretches in tasks])
            for number, ((file, stretches), sound) in enumerate(zip(tasks, results, strict=True)):
                if not sound:
                    damaged.add(file)
                if last_of[file] == number and file not in damaged:
                    kept.append(saver.submit(file.save, self._lengths))
                done += stretches[-1][1] - stretches[0][0]
                if time.monotonic() > told + _SECONDS_BETWEEN_REPORTS:
                    told = time.monotonic()
                    logger.info("found the lengths of %d of %d records", done, total)
        for saving in kept:
            saving.result()
        if damaged:
            logger.info("lengths are not kept of %d files with damaged records", len(damaged))

    def _measure(self, stretches: list[tuple[int, int]]) -> bool:
        """Fills in the lengths of some records; False if some of them cannot be read."""
        parser = self._feature.parser()
        is_sound = True
        for begin, end in stretches:
            plan = self._reader.plan(np.arange(begin, end, dtype=np.int64))
            block, errors = self._reader.fetch(plan)
            found, parsed = self._feature.lengths_of(parser, block)
            self._lengths[parsed.numbers] = found
            is_sound = is_sound and not errors and len(parsed) == len(block)
        return is_sound


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(8, os.cpu_count() or 1))


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
