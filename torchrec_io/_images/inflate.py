"""Decompression of zlib streams of a limited size."""

from __future__ import annotations

import zlib

from ..checks import counted
from .bad_value import BadValueError


def inflate(data: memoryview | bytes, most: int, limit: str) -> bytes:
    """Decompress one zlib stream.

    Memory grows with the decompressed bytes, whatever size the stream claims.

    Args:
        data: Bytes of the stream, and nothing else.
        most: Largest number of decompressed bytes.
        limit: Origin of this limit, for the error message.

    Raises:
        BadValueError: If the stream is larger, damaged, truncated, or followed by other bytes.
    """
    stream = zlib.decompressobj()
    try:
        # One byte more, so that the end of the stream is read, too.
        content = stream.decompress(data, most + 1)
    except zlib.error as error:
        raise BadValueError(f"its zlib stream is damaged: {error}") from None
    if len(content) > most:
        raise BadValueError(f"its zlib stream holds more than {counted(most, 'byte')}, {limit}")
    if not stream.eof:
        raise BadValueError("its zlib stream is truncated")
    if stream.unused_data:
        stray = counted(len(stream.unused_data), "byte")
        raise BadValueError(f"its zlib stream is followed by {stray}")
    return content
