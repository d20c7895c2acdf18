"""Lengths of records: the number of values that each record has of a feature.

Finding them takes one pass over the data. It uses the first pass of the parser, which decodes no
value. They are cached in the user's cache directory beside the indexes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._records.file_results import FilePass, Results, find_results
from .._records.record_block import RecordBlock
from .._records.record_reader import ReadPlan, RecordReader
from .._schema.dtypes import DTypeName, stored_dtype
from .._schema.feature import Place
from .._schema.schema import Schema
from .._schema.specs import VarLenFeature
from .._schema.stored_keys import StoredCount
from .arrays import Ints
from .columns.base import LocatedBlock
from .failures import RecordFailure
from .parser import ExampleParser
from .valid_records import parse_valid

SUFFIX = ".tflen"
# Length of a record that is not known.
UNKNOWN = -1


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
            if self.place == "sequence":
                found.append(np.diff(units.records))
                continue
            # Incomplete items are rounded up: parsing the record reports them.
            found.append(-(np.diff(units.values) // -count.values_per_item))
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
    parser = measure.parser()

    def visit(plan: ReadPlan) -> tuple[Results, bool]:
        block, errors = reader.fetch(plan)
        found, parsed = measure.lengths_of(parser, block)
        lengths = np.full(len(plan.numbers), UNKNOWN, np.int32)
        lengths[parsed.numbers - plan.numbers[0]] = found
        return [lengths], not errors and len(parsed) == len(block)

    # A record has less than 2 GiB, so fewer values.
    found = find_results(reader, FilePass("lengths", f"{measure}", SUFFIX, ["<i4"], visit))
    lengths = np.concatenate([of_file for [of_file] in found])
    known: Ints = np.maximum(lengths, UNKNOWN, dtype=np.int64)
    return known
