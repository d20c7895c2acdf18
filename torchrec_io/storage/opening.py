"""Opening of paths as byte sources. All kinds of paths are distinguished here."""

from __future__ import annotations

import os
from collections.abc import Iterable

from .byte_source import ByteSource, Stamp
from .compression import Compression, CompressionChoice, check_compression, detect_compression
from .local import LocalFile, PipeFile, StrPath, is_seekable_file, stamp_of


def open_file(path: StrPath) -> ByteSource:
    """Open a file for reading its stored bytes at any offset.

    Raises:
        FileNotFoundError, IsADirectoryError: If there is no such file.
        OSError: If the path is a pipe, or cannot be opened.
    """
    return LocalFile(path)


def open_decompressed(
    file: ByteSource, compression: Compression | None, restarts: Iterable[tuple[int, int]] = ()
) -> ByteSource:
    """Return the decompressed content of an open file.

    Args:
        file: Open file. It is returned as it is if it is not compressed.
        compression: Compression of the file.
        restarts: Pairs ``(stream offset, file offset)`` where decompression can start.
    """
    if compression is None:
        return file
    from .compressed import CompressedFile  # noqa: PLC0415  # loads a decompressor

    return CompressedFile(file, compression, restarts)


def open_stream(path: StrPath, compression: CompressionChoice) -> ByteSource:
    """Open a TFRecord file or pipe for reading its decompressed content from front to back.

    Args:
        path: File or pipe.
        compression: ``"auto"`` (by content), None, ``"gzip"`` or ``"zlib"``.

    Raises:
        FileNotFoundError, IsADirectoryError: If there is no such file.
        ValueError: If ``compression`` is not one of its values.
    """
    check_compression(compression)
    file = LocalFile(path) if is_seekable(path) else PipeFile(path)
    return open_decompressed(
        file, detect_compression(file.head()) if compression == "auto" else compression
    )


def read_stamp(path: StrPath) -> Stamp:
    """Return the stamp of a file without opening it.

    Raises:
        FileNotFoundError: If there is no such file.
    """
    return stamp_of(os.stat(path))


def is_seekable(path: StrPath) -> bool:
    """Return whether a path can be read at any offset, and more than once.

    Raises:
        FileNotFoundError: If there is no such file.
    """
    return is_seekable_file(os.stat(path))
