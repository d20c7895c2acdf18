"""Chunks of records for temporary files: their numbers, their sizes and their data.

A chunk is the number n of records, n numbers and n sizes, all int64, and the data of the records.
"""

from __future__ import annotations

import numpy as np

from .. import _core
from .._records.record_block import RecordBlock
from .._storage.byte_source import ByteBuffer

# Sizes of a chunk without its data: of the count, and of the numbers of a record.
HEADER_BYTES = 8
RECORD_BYTES = 16


def encode_chunk(block: RecordBlock) -> bytes:
    """Return the chunk of some records with their numbers."""
    count = len(block)
    data = HEADER_BYTES + RECORD_BYTES * count
    chunk = np.empty(data + int(block.lengths.sum()), np.uint8)
    header = chunk[:data].view(np.int64)
    header[0] = count
    header[1 : count + 1] = block.numbers
    header[count + 1 :] = block.lengths
    targets = np.cumsum(block.lengths) - block.lengths
    ranges = np.column_stack([block.starts, block.lengths, targets])
    _core.gather(block.buffer, ranges.astype(np.int64, copy=False), chunk[data:])
    return chunk.tobytes()


def decode_chunks(buffer: ByteBuffer) -> RecordBlock:
    """Return the records of chunks that follow each other, without copying their data."""
    found = [np.empty((3, 0), np.int64)]
    at = 0
    while at < len(buffer):
        count = int(np.frombuffer(buffer, np.int64, 1, at)[0])
        at += HEADER_BYTES
        numbers, lengths = np.frombuffer(buffer, np.int64, 2 * count, at).reshape(2, count)
        at += RECORD_BYTES * count
        ends = at + np.cumsum(lengths)
        found.append(np.stack([numbers, ends - lengths, lengths]))
        at += int(lengths.sum())
    numbers, starts, lengths = np.concatenate(found, axis=1)
    return RecordBlock(buffer, starts, lengths, numbers)
