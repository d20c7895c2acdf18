"""Opening of the decompressed content of open files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .byte_source import ByteSource
from .compression import Compression

if TYPE_CHECKING:
    from .cache.block_cache import BlockCache
    from .location import Location
    from .seek_points import SeekPointRecorder, SeekPoints
    from .spanned_stream import SpannedStream


def open_decompressed(
    file: ByteSource, compression: Compression | None, recorder: SeekPointRecorder | None = None
) -> ByteSource:
    """Return the decompressed content of an open file, which is best read from front to back.

    Args:
        file: Open file. It is returned as it is if it is not compressed.
        compression: Compression of the file.
        recorder: Chooses seek points while the file is read.
    """
    if compression is None:
        return file
    from .compressed import CompressedFile  # noqa: PLC0415  # loads a decompressor

    return CompressedFile(file, compression, recorder)


def make_spans(
    file: ByteSource,
    compression: Compression | None,
    points: SeekPoints,
    stream_bytes: int,
    cache_bytes: int,
    *,
    location: Location | None = None,
    disk: BlockCache | None = None,
) -> SpannedStream:
    """Return the spans of a compressed file, none of them decoded.

    Args:
        file: Open file.
        compression: Compression of the file.
        points: Seek points of the file.
        stream_bytes: Size of the decompressed stream.
        cache_bytes: Memory for decoded spans in this process, in bytes.
        location: Location of the file, if there is a cache on the local disk.
        disk: Cache on the local disk that keeps decoded spans.
    """
    from .span_cache import process_cache  # noqa: PLC0415
    from .spanned_stream import SpannedStream  # noqa: PLC0415  # loads a decompressor

    assert compression is not None
    cache = process_cache(cache_bytes)
    stream = SpannedStream(file.path, compression, points, stream_bytes, cache)
    if location is not None and disk is not None:
        from .cache.stored_spans import stored_spans  # noqa: PLC0415  # not without a cache

        stream.stored = stored_spans(disk, file, stream.starts, location.options)
    return stream


def open_spans(file: ByteSource, stream: SpannedStream) -> ByteSource:
    """Return the decompressed content of an open file, readable at any offset."""
    from .spanned_file import SpannedFile  # noqa: PLC0415  # loads a decompressor

    return SpannedFile(file, stream)
