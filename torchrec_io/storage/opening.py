"""Opening of paths as byte sources. All kinds of paths are distinguished here."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from .byte_source import ByteSource, Stamp
from .compression import Compression, CompressionChoice, check_compression, detect_compression
from .local import LocalFile, PipeFile, StrPath, is_seekable_file, stamp_of
from .remote.options import RemoteOptions
from .remote.urls import is_url, local_path, scheme_of


def open_file(
    path: StrPath, remote: RemoteOptions | None = None, stamp: Stamp | None = None
) -> ByteSource:
    """Open a file or a remote object for reading its stored bytes at any offset.

    Args:
        path: Path or URL.
        remote: Options for remote objects; by default those that the tools of the stores use.
        stamp: Stamp of a remote object as it was first seen, if that is known. It is read then
            exactly as it was, and nothing is requested to open it.

    Raises:
        FileNotFoundError, IsADirectoryError: If there is no such file.
        OSError: If the path is a pipe, or cannot be opened.
    """
    name = local_name(path)
    if not is_url(name):
        return LocalFile(name)
    from .remote.remote_file import RemoteFile  # noqa: PLC0415  # not for local files

    remote = remote or RemoteOptions()
    public = remote.name(name)
    return RemoteFile(public, stamp or find_stamp(public, remote), remote)


def local_name(path: StrPath) -> str:
    """Return a path as text: that of a ``file://`` URL, or the same path or URL."""
    name = os.fspath(path)
    return local_path(name) if scheme_of(name) == "file" else name


def public_name(path: StrPath, remote: RemoteOptions | None) -> str:
    """Return a path, or a URL without what is secret, which ``remote`` remembers."""
    name = local_name(path)
    return (remote or RemoteOptions()).name(name) if is_url(name) else name


def options_for(path: StrPath, remote: RemoteOptions | None) -> RemoteOptions | None:
    """Return how a remote object is accessed; None for a local file, which needs no options."""
    return (remote or RemoteOptions()) if is_remote(path) else None


def is_remote(path: StrPath) -> bool:
    """Return whether a path is the URL of a remote object."""
    return is_url(local_name(path))


def find_stamp(path: StrPath, remote: RemoteOptions | None = None) -> Stamp:
    """Return the stamp of a file, or that of a remote object as it was when it was listed.

    Raises:
        FileNotFoundError: If there is no such file.
    """
    remote = remote or RemoteOptions()
    name = public_name(path, remote)
    if not is_url(name):
        return read_stamp(name)
    from .remote.listing import is_known_missing  # noqa: PLC0415  # not for local files

    if is_known_missing(name, remote):
        raise FileNotFoundError(errno.ENOENT, "no such object", name)
    if name not in remote.stamps:
        remote.stamps[name] = read_stamp(name, remote)
    return remote.stamps[name]


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


def open_stream(
    path: StrPath, compression: CompressionChoice, remote: RemoteOptions | None = None
) -> ByteSource:
    """Open a TFRecord file or pipe for reading its decompressed content from front to back.

    Args:
        path: File, pipe or remote object. A remote object is read as it is now.
        compression: ``"auto"`` (by content), None, ``"gzip"`` or ``"zlib"``.
        remote: Options for remote objects.

    Raises:
        FileNotFoundError, IsADirectoryError: If there is no such file.
        ValueError: If ``compression`` is not one of its values.
    """
    check_compression(compression)
    if is_remote(path):
        file = open_file(path, remote, read_stamp(path, remote))
    else:
        name = local_name(path)
        file = LocalFile(name) if is_seekable(name) else PipeFile(name)
    return open_decompressed(
        file, detect_compression(file.head()) if compression == "auto" else compression
    )


def read_stamp(path: StrPath, remote: RemoteOptions | None = None) -> Stamp:
    """Return the stamp of a file or remote object as it is now, without opening it.

    Raises:
        FileNotFoundError: If there is no such file.
    """
    remote = remote or RemoteOptions()
    name = public_name(path, remote)
    if not is_url(name):
        return stamp_of(os.stat(name))
    from .remote.listing import read_remote_stamp  # noqa: PLC0415  # not for local files

    return read_remote_stamp(name, remote)


def is_seekable(path: StrPath) -> bool:
    """Return whether a path can be read at any offset, and more than once.

    Raises:
        FileNotFoundError: If there is no such file.
    """
    return is_remote(path) or is_seekable_file(os.stat(local_name(path)))
