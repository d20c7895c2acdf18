"""Zlib streams of a bounded size."""

from __future__ import annotations

import zlib

from .bad_value import BadValueError


def inflate(data: memoryview | bytes, most: int, bound: str) -> bytes:
    """What one zlib stream holds.

    Memory is taken as bytes come out, never for what was promised.

    Args:
        data: The stream, and nothing else.
        most: How many bytes it may hold.
        bound: What says so, for the error.

    Raises:
        BadValueError: it holds more, is damaged or cut short, or something follows it.
    """
    stream = zlib.decompressobj()
    try:
        # One more: so that the end of the stream is read, too.
        content = stream.decompress(data, most + 1)
    except zlib.error as error:
        raise BadValueError(f"its zlib stream is damaged: {error}") from None
    if len(content) > most:
        raise BadValueError(f"its zlib stream holds more than {most} bytes, {bound}")
    if not stream.eof:
        raise BadValueError("its zlib stream is cut short")
    if stream.unused_data:
        raise BadValueError(f"{len(stream.unused_data)} bytes follow its zlib stream")
    return content
