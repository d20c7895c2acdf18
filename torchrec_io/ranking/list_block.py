"""The contexts and examples of a block of lists."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _core
from .._parsing.failures import RecordFailure
from .._records.record_block import RecordBlock


class ListBlock(NamedTuple):
    """The parts of some records. Each part is a serialized Example.

    Attributes:
        contexts: Context of each record.
        examples: Examples of all records, in their order.
        offsets: Offsets of the records in ``examples``, int64 ``[records + 1]``.
        context_at: Byte offset of each context in its record, int64 ``[records]``; -1 if it was
            merged from several parts.
        example_at: Byte offset of each example in its record, int64 ``[examples]``.
    """

    contexts: RecordBlock
    examples: RecordBlock
    offsets: npt.NDArray[np.int64]
    context_at: npt.NDArray[np.int64]
    example_at: npt.NDArray[np.int64]

    def context_failure(self, failure: RecordFailure) -> RecordFailure:
        """Convert the failure of a context to a failure of its record."""
        at = int(self.context_at[failure.position])
        offset = None if failure.offset is None or at < 0 else at + failure.offset
        return failure._replace(offset=offset)

    def example_failure(self, failure: RecordFailure) -> RecordFailure:
        """Convert the failure of an example to a failure of its record."""
        record = int(np.searchsorted(self.offsets, failure.position, "right")) - 1
        at = int(self.example_at[failure.position])
        number = failure.position - int(self.offsets[record])
        offset = None if failure.offset is None else at + failure.offset
        reason = f"example {number}: {failure.reason}"
        return failure._replace(position=record, offset=offset, reason=reason)


def split_lists(block: RecordBlock) -> tuple[ListBlock, list[RecordFailure]]:
    """Split records into their parts.

    Returns:
        The parts, and a failure for each record that is not an ExampleListWithContext.
    """
    parts = _core.split_lists(block.native())
    offsets, example_at = parts.example_splits, parts.example_offsets
    owners = np.repeat(np.arange(len(block)), np.diff(offsets))
    examples = RecordBlock(
        block.buffer, block.starts[owners] + example_at, parts.example_sizes, block.numbers[owners]
    )
    contexts, positions = _merge_contexts(block, parts)
    found = [RecordFailure(each.record, None, each.offset, each.reason) for each in parts.failures]
    return ListBlock(contexts, examples, offsets, positions, example_at), found


def _merge_contexts(
    block: RecordBlock, parts: _core.ListParts
) -> tuple[RecordBlock, npt.NDArray[np.int64]]:
    """Return one context for each record, and its byte offset in the record."""
    owners, at, sizes = parts.context_records, parts.context_offsets, parts.context_sizes
    positions = np.zeros(len(block), np.int64)
    lengths = np.zeros(len(block), np.int64)
    positions[owners], lengths[owners] = at, sizes  # where there are several parts, the last one
    starts = block.starts + positions
    pieces, size = [block.buffer], len(block.buffer)
    firsts = np.searchsorted(owners, np.arange(len(block) + 1))
    for record in np.flatnonzero(np.diff(firsts) > 1).tolist():
        # Protobuf merges serialized messages that are concatenated.
        own = slice(int(firsts[record]), int(firsts[record + 1]))
        begins = block.starts[record] + at[own]
        spans = zip(begins.tolist(), (begins + sizes[own]).tolist(), strict=True)
        pieces += [block.buffer[begin:end] for begin, end in spans]
        starts[record], lengths[record] = size, sizes[own].sum()
        size += int(lengths[record])
        positions[record] = -1
    buffer = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    return RecordBlock(buffer, starts, lengths, block.numbers), positions
