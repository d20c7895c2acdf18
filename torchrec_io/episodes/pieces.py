"""Pieces of episodes: where each step of a large feature lies in its record.

A record whose images, arrays or long vectors are needed for a few steps alone is not read as a
whole. Its pieces are read: the entries of the other features, and the elements of these steps. Of
them a smaller message is made, which is parsed like any other. Each piece has a checksum, taken
when the checksum of its record was verified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .._parsing.arrays import Ints
from .._parsing.lengths import UNKNOWN, LengthMeasure
from .._records.file_results import FilePass, Results, find_results
from .._records.record_block import RecordBlock
from .._records.record_reader import ReadPlan, RecordReader
from .slim_records import STEP_BITS, KeptSteps, PickedPieces, PieceKeys

SUFFIX = ".tfsteps"

# Pieces at most this far apart are read at once; see RecordReader.plan.
_GAP_BYTES = 1 << 12


class PieceTable:
    """Places of the pieces of all records of some files.

    Args:
        reader: Reader of the records.
        keys: The stored features.
        counts: Number of steps of each record; int64 ``[N]``.
        results: Results of each file: int32 ``[N]`` number of pieces of each record, 0 if it must
            be read as a whole, and uint32 ``[3 * pieces]`` offset, size and CRC of each piece.

    Attributes:
        keys: The stored features.
    """

    def __init__(
        self, reader: RecordReader, keys: PieceKeys, counts: Ints, results: Sequence[Results]
    ) -> None:
        self._reader = reader
        self.keys = keys
        self._counts = counts
        self._pieces = [found[1].reshape(-1, 3) for found in results]
        sizes = [found[0].astype(np.int64) for found in results]
        # Of each record: the number of its first piece in its file.
        self._firsts = np.concatenate([np.cumsum(each) - each for each in sizes])
        # A cache that others have changed may contradict itself.
        whole = [
            len(pieces) == each.sum() for each, pieces in zip(sizes, self._pieces, strict=True)
        ]
        is_whole = np.repeat(whole, [len(each) for each in sizes])
        wanted = keys.num_whole + len(keys.steps) * counts
        self._has_pieces = (np.concatenate(sizes) == wanted) & (counts > 0) & is_whole

    @classmethod
    def build(
        cls, reader: RecordReader, measure: LengthMeasure, keys: PieceKeys
    ) -> tuple[Ints, PieceTable]:
        """Return the numbers of steps of all records, int64 ``[N]``, and their pieces.

        They are found in one pass, or read from the cache.

        Args:
            reader: Reader of the records.
            measure: Measure of the number of steps. It is UNKNOWN for records that cannot be read.
            keys: The stored features.

        Raises:
            TruncatedFileError, StaleIndexError, OSError: As for
                :func:`torchrec_io._parsing.lengths.find_lengths`.
        """
        parser, native = measure.parser(), keys.native()
        num_whole, num_keys = keys.num_whole, len(keys.steps)

        def visit(plan: ReadPlan) -> tuple[Results, bool]:
            block, errors = reader.fetch(plan)
            found, parsed = measure.lengths_of(parser, block)
            sizes, pieces = _core.locate_pieces(parsed.native(), native)
            is_right = sizes == num_whole + num_keys * found
            rows = parsed.numbers - plan.numbers[0]
            lengths = np.full(len(plan.numbers), UNKNOWN, np.int32)
            lengths[rows] = found
            counts = np.zeros(len(lengths), np.int32)
            counts[rows] = np.where(is_right, sizes, 0)
            kept = pieces.reshape(-1, 3)[np.repeat(is_right, sizes)].reshape(-1)
            return [lengths, counts, kept], not errors and len(parsed) == len(block)

        identity = f"{measure} {keys}"
        dtypes = ["<i4", "<i4", "<u4"]
        found = find_results(reader, FilePass("steps", identity, SUFFIX, dtypes, visit))
        lengths = np.concatenate([of_file[0] for of_file in found]).astype(np.int64)
        return lengths, cls(reader, keys, lengths, [of_file[1:] for of_file in found])

    def has(self, records: Ints) -> npt.NDArray[np.bool_]:
        """Return whether the pieces of records are known; bool ``[n]``."""
        found: npt.NDArray[np.bool_] = self._has_pieces[records]
        return found

    def pick(self, records: Ints, wanted: Mapping[str, Ints], whole: Sequence[str]) -> PickedPieces:
        """Plan to read pieces of records.

        Args:
            records: Numbers of records whose pieces are known, ascending; int64 ``[m]``.
            wanted: Steps of each stored feature as ``record << STEP_BITS | step``, ascending.
            whole: The other stored features that are needed.

        Raises:
            StaleIndexError, TruncatedFileError, FileNotFoundError: As for
                :meth:`RecordReader.plan`.
        """
        keys, num_whole = self.keys, self.keys.num_whole
        all_keys = [*keys.context, *keys.lists, *keys.steps]
        first_slots = np.tile([all_keys.index(key) for key in whole], len(records)).astype(np.int64)
        first_rows = np.repeat(np.arange(len(records)), len(whole))
        # The record, the slot, and the number in the record of each piece.
        parts: list[tuple[Ints, Ints, Ints]] = [(first_rows, first_slots, first_slots)]
        for number, key in enumerate(keys.steps):
            if key in wanted:
                rows = np.searchsorted(records, wanted[key] >> STEP_BITS)
                steps = wanted[key] & ((1 << STEP_BITS) - 1)
                within = num_whole + number * self._counts[records[rows]] + steps
                parts.append((rows, np.full(len(rows), num_whole + number, np.int64), within))
        rows, slots, within = (np.concatenate(each) for each in zip(*parts, strict=True))
        files, starts, _ = self._reader.files.find(records).locations()
        pieces = self._rows_of(files[rows], self._firsts[records[rows]] + within)
        is_there = pieces[:, 1] > 0
        rows, slots, pieces = rows[is_there], slots[is_there], pieces[is_there]
        begins = starts[rows] + _core.FRAME_HEADER_BYTES + pieces[:, 0]
        sizes = pieces[:, 1].astype(np.int64)
        reads = ReadPlan.of_ranges(files[rows], begins, sizes, _GAP_BYTES)
        kept = KeptSteps(records, wanted)
        return PickedPieces(reads, kept, slots, rows, np.ascontiguousarray(pieces[:, 2]))

    def read(self, picked: PickedPieces) -> tuple[RecordBlock, Ints]:
        """Read pieces, and return a message of each record, and numbers of damaged records.

        Raises:
            CorruptRecordError: If a compressed file is damaged.
            TruncatedFileError, OSError: As for :meth:`RecordReader.read`.
        """
        reads = picked.reads
        buffer = self._reader.read(reads)
        records = picked.kept.records
        bad = np.empty(0, np.int64)
        if self._reader.verify_crc:
            found = _core.find_mismatches(
                buffer, reads.frame_starts, reads.frame_sizes, picked.crcs
            )
            bad = np.unique(records[picked.rows[found]])
        data, starts, lengths = self.keys.assemble(buffer, picked)
        return RecordBlock(data, starts, lengths, records, picked.kept), bad

    def _rows_of(self, files: Ints, numbers: Ints) -> npt.NDArray[Any]:
        """Return pieces by their file and their number in it; uint32 ``[n, 3]``."""
        found = np.empty((len(numbers), 3), np.uint32)
        for file in np.unique(files).tolist():
            at = files == file
            found[at] = self._pieces[file][numbers[at]]
        return found
