"""Opening of paths as byte sources. All kinds of paths are distinguished here."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .byte_source import ByteSource, Stamp
from .compression import Compression, CompressionChoice, check_compression, detect_compression
from .local import LocalFile, PipeFile, StrPath, is_seekable_file, stamp_of
from .remote.options import RemoteOptions
from .remote.urls import is_url, local_path, scheme_of

if TYPE_CHECKING:
    from .cache.block_cache import BlockCache
    from .seek_points import SeekPointRecorder, SeekPoints
    from .spanned_stream import SpannedStream


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
    stamp = stamp or find_stamp(public, remote)
    blocks = None if remote.cache is None else remote.cache.blocks_of(public, stamp, remote)
    if blocks is None:
        return RemoteFile(public, stamp, remote)
    from .remote.cached_file import CachedFile  # noqa: PLC0415  # not without a cache

    return CachedFile(public, stamp, remote, blocks)


def open_now(path: StrPath, remote: RemoteOptions | None = None) -> ByteSource:
    """Open a file or remote object as it is now, also if it was another one before.

    Raises:
        FileNotFoundError, IsADirectoryError: If there is no such file.
        OSError: If the path is a pipe, or cannot be opened.
    """
    return open_file(path, remote, read_stamp(path, remote) if is_remote(path) else None)


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


def file_size(path: StrPath, remote: RemoteOptions | None = None) -> int:
    """Return the size of a file or remote object in bytes."""
    return find_stamp(path, remote).size


def identity_of(path: StrPath) -> str:
    """Return text that is equal for two paths of the same file or remote object."""
    return public_name(path, None) if is_remote(path) else os.path.realpath(local_name(path))


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


def remember_stamps(urls: Sequence[str], remote: RemoteOptions) -> None:
    """Find the stamps of those remote objects that exist, by few requests.

    Args:
        urls: Public URLs.
        remote: Options for remote objects, which remember the stamps.

    Raises:
        OSError: If a request failed.
    """
    from .remote.listing import find_objects  # noqa: PLC0415  # not for local files

    find_objects(urls, remote)


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
    disk: BlockCache | None = None,
    remote: RemoteOptions | None = None,
) -> SpannedStream:
    """Return the spans of a compressed file, none of them decoded.

    Args:
        file: Open file.
        compression: Compression of the file.
        points: Seek points of the file.
        stream_bytes: Size of the decompressed stream.
        cache_bytes: Memory for decoded spans in this process, in bytes.
        disk: Cache on the local disk that keeps decoded spans.
        remote: Options of the access to a remote object.
    """
    from .span_cache import process_cache  # noqa: PLC0415
    from .spanned_stream import SpannedStream  # noqa: PLC0415  # loads a decompressor

    assert compression is not None
    cache = process_cache(cache_bytes)
    stream = SpannedStream(file.path, compression, points, stream_bytes, cache)
    if disk is not None:
        from .cache.stored_spans import stored_spans  # noqa: PLC0415  # not without a cache

        stream.stored = stored_spans(disk, file, stream.starts, remote)
    return stream


def open_spans(file: ByteSource, stream: SpannedStream) -> ByteSource:
    """Return the decompressed content of an open file, readable at any offset."""
    from .spanned_file import SpannedFile  # noqa: PLC0415  # loads a decompressor

    return SpannedFile(file, stream)


def open_stream(
    path: StrPath, compression: CompressionChoice, remote: RemoteOptions | None = None
) -> ByteSource:
    """Open a TFRecord file or pipe for reading its decompressed content from front to back.

    Args:
        path: File, pipe or remote object. A remote object is read as it is now.
        compression: ``"auto"`` (by content), None, ``"gzip"``, ``"zlib"`` or ``"zstd"``.
        remote: Options for remote objects.

    Raises:
        FileNotFoundError, IsADirectoryError: If there is no such file.
        ValueError: If ``compression`` is not one of its values.
    """
    check_compression(compression)
    if is_remote(path) or is_seekable(path):
        file = open_now(path, remote)
    else:
        file = PipeFile(local_name(path))
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
