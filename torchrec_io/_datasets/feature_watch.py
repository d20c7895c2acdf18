"""A warning about features of the schema that none of the first records has."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from .._order.selection import Selection
from .._records.reader import Reader
from .._records.record_block import RecordBlock
from .._schema.inspect import stored_names
from .._schema.schema import Schema
from .._tensors.block_parser import BlockParser
from ..checks import counted, joined_names
from ..errors import TorchRecIOError
from .worker_state import Subject, WorkerState

logger = logging.getLogger("torchrec_io")

_MOST_RECORDS = 1000
# Number of records whose names are all read, which takes long if there are many.
_MOST_CHECKS = 100
# Bytes of the first records that are read again before a warning.
_MOST_BYTES = 1 << 28

Blocks: TypeAlias = Callable[[], Iterator[RecordBlock]]


class FeatureWatch:
    """Looks for features that records may lack, until each was found in a record.

    Most schemas have no such feature, and most files have each of them in the first record. If some
    were not found, their names may be misspelt: that is logged, once for each dataset.

    Args:
        parser: Parser of the records.
        state: State that is shared with the processes that read the same dataset.
        enough: Number of records to examine before the warning, at most 1,000.
        first: Function that returns the first records of the dataset. They are read only before a
            warning: shuffled records, and those of one of several processes, may be others. None if
            they cannot be read again.
    """

    def __init__(
        self,
        parser: BlockParser,
        state: WorkerState,
        enough: int = _MOST_RECORDS,
        first: Blocks | None = None,
    ) -> None:
        self._state = state
        self._enough = max(1, min(enough, _MOST_RECORDS))
        self._first = first
        self._examined = 0
        self._record = b""
        self._checks = _MOST_CHECKS
        # The field with the name in a stored entry, by the name.
        self._unseen: dict[str, bytes] = {}
        if parser.has_stored_names and not state.is_marked(Subject.features):
            self._schema = parser.schema
            for name, spec in parser.schema.items():
                for each in spec.stored_keys(name):
                    if not each.is_required:
                        self._unseen[each.key] = _name_field(each.key)

    @property
    def is_open(self) -> bool:
        """True as long as features are to be found."""
        return len(self._unseen) > 0

    def examine(self, block: RecordBlock | None) -> None:
        """Look for the features in the next records. None stands for records that are not kept."""
        if self._unseen and block is not None:
            self._look_in(block, self._enough)
            if self._examined >= self._enough:
                self.end()

    def _look_in(self, block: RecordBlock, enough: int) -> None:
        for position in range(min(len(block), enough - self._examined)):
            if not self._unseen:
                break
            self._record = block[position]
            self._examined += 1
            found = {key for key, field in self._unseen.items() if field in self._record}
            if found:
                found = self._having(found)
                self._unseen = {k: v for k, v in self._unseen.items() if k not in found}
        if not self._unseen:
            self._state.mark(Subject.features)

    def _having(self, keys: set[str]) -> set[str]:
        """Return the names that the last record, which contains them, has in the right part."""
        if not isinstance(self._schema, Schema) or not self._checks:
            return keys
        self._checks -= 1
        context, lists = stored_names(self._record) or ([], [])
        return keys & {*context, *(lists if self._schema.is_sequence else ())}

    def end(self) -> None:
        """Warn of the features that were not found, unless the first records have them."""
        if not self._unseen:
            return
        before, size = self._examined, 0
        if self._first is not None:
            self._examined = 0
            with contextlib.suppress(TorchRecIOError, OSError):  # reading them raises it
                for block in self._first():
                    self._look_in(block, _MOST_RECORDS)
                    size += int(block.lengths.sum())
                    if not self._unseen or size > _MOST_BYTES:
                        break
        unseen, self._unseen = [*self._unseen], {}
        if examined := max(before, self._examined) if unseen else 0:
            message = _warning(self._schema, unseen, examined, self._record)
            self._state.warn_once(logger, Subject.features, message)


def first_blocks(reader: Reader, selection: Selection) -> Iterator[RecordBlock]:
    """Yield the first records of a dataset in their stored order, more and more at a time."""
    numbers = selection.numbers_at(np.arange(min(_MOST_RECORDS, len(selection))))
    begin, end = 0, 1
    while begin < len(numbers):
        yield reader.fetch(reader.plan(numbers[begin:end]))[0]
        begin, end = end, 2 * end


def _name_field(name: str) -> bytes:
    """Return the serialized field that holds the name of a feature."""
    key = name.encode()
    size, rest = [], len(key)
    while rest >= 0x80:
        size.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([0x0A, *size, rest]) + key


def _warning(schema: Any, unseen: list[str], examined: int, record: bytes) -> str:
    from .._parsing.hints import hint_at  # noqa: PLC0415  # only for this warning

    noun = "feature" if len(unseen) == 1 else "features"
    hint = hint_at(schema, record, unseen[0], unseen[0]) if isinstance(schema, Schema) else ""
    records = counted(examined, "record")
    return f"none of the first {records} has the {noun} {joined_names(unseen)} of the schema{hint}"
