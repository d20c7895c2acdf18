"""Opening of the decompressed content of open files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .byte_source import ByteSource
from .compression import Compression

if TYPE_CHECKING:
    from .seek_points import SeekPoint, SeekPointRecorder


def open_decompressed(
    file: ByteSource,
    compression: Compression | None,
    start: SeekPoint | None = None,
    recorder: SeekPointRecorder | None = None,
) -> ByteSource:
    """Return the decompressed content of an open file, which is to be read from front to back.

    Args:
        file: Open file. It is returned as it is if it is not compressed.
        compression: Compression of the file.
        start: Seek point of a compressed file to start at. Default: the start of the file.
        recorder: Chooses seek points while the file is read.
    """
    if compression is None:
        return file
    from .inflater import Inflater  # noqa: PLC0415  # loads a decompressor
    from .seek_points import START  # noqa: PLC0415

    return Inflater(file, compression, start or START, recorder)
