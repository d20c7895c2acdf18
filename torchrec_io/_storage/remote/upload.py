"""Writing of small objects, and deleting of objects."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from ..stamp import Stamp
from .options import RemoteOptions
from .process import ask
from .urls import is_web_url
from .web import store_of

# What credentials must allow.
WRITE = "write and delete objects"


def put_object(
    url: str,
    data: bytes,
    options: RemoteOptions,
    *,
    must_be_new: bool = False,
) -> Stamp:
    """Write an object in one request, so that it appears whole or not at all.

    The bytes are held in memory until the request is done.

    Args:
        url: Public URL.
        data: Content of the object.
        options: Options for remote objects.
        must_be_new: Whether an object of that name is an error. The store looks for one in the same
            request; a filesystem of fsspec is asked just before.

    Returns:
        Stamp of the new object. Its time of the last change may be unknown.

    Raises:
        FileExistsError: If there is such an object, though there must be none.
        OSError: If the request failed, or if the URL is one of HTTP, which cannot be written.
    """
    check_writable(url)
    stamp: Stamp = ask(url, options, "put", data, must_be_new, needs="write objects")
    return stamp


def exists(url: str, options: RemoteOptions) -> bool:
    """Return whether there is an object now."""
    try:
        ask(url, options, "head")
    except FileNotFoundError:
        return False
    return True


def delete_objects(urls: Sequence[str], options: RemoteOptions) -> None:
    """Delete objects of one store. Those that do not exist are no error."""
    if urls:
        others = [store_of(url, options).key for url in urls[1:]]
        ask(urls[0], options, "delete", *others, needs=WRITE)


def copy_object(source: str, target: str, options: RemoteOptions) -> None:
    """Copy an object within its store, replacing any object of the other name.

    Args:
        source: Public URL of the object.
        target: Public URL of the copy.
        options: Options for remote objects.
    """
    ask(target, options, "copy", store_of(source, options).key, needs=WRITE)


def check_writable(url: str) -> None:
    """Check that objects of a URL can be written.

    Raises:
        OSError: If the URL is one of HTTP.
    """
    if is_web_url(url):
        raise OSError(
            errno.EROFS, "an HTTP server cannot be written; use a URL of s3://, gs:// or az://", url
        )
