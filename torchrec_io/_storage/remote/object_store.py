"""Requests to stores of obstore. Runs in the helper process alone."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

from ..stamp import NANOSECONDS, Stamp
from .attempts import most_attempts
from .failures import Failure, Kind, RequestError, classify
from .messages import canonical_etag, is_strong
from .stores import make_store, make_writable

_LIST_CHUNK = 1000
_REPLACED = Failure(Kind.changed, "the object was replaced")
# What is lost at most when a body breaks off: this much, or an eighth of the range.
_CHUNK_BYTES, _CHUNKS = 1 << 19, 8


class ObjectStore:
    """A store of obstore.

    Args:
        root: The store, such as ``"s3://bucket"``; of HTTP, the server with what is secret.
        options: The user's ``storage_options``.

    Attributes:
        tried: Credentials that requests have, in words.
        most_attempts: Largest number of attempts of a request.

    Raises:
        ImportError: If a package is missing.
        ValueError: If the options are not valid.
    """

    def __init__(self, root: str, options: Mapping[str, Any]) -> None:
        # An optional package, which is loaded with the first store.
        self._obstore: Any = importlib.import_module("obstore")
        self._root, self._options = root, options
        try:
            self.most_attempts = most_attempts(options)
            self._client, self.tried = make_store(root, options)
        except ImportError:
            raise
        except Exception as error:  # noqa: BLE001  # obstore has no common class of these
            # The text of an error about options may have their values.
            raise ValueError(_without_values(str(error), options)) from None

    # ---- reading ----

    def chunks(self, key: str, stamp: Stamp, begin: int, end: int) -> Iterator[memoryview]:
        """Yield a range of an object as it arrives.

        Args:
            key: Name of the object in the store.
            stamp: Stamp of the object as it was first seen.
            begin: First byte of the range.
            end: First byte after the range.
        """
        options: dict[str, Any] = {"range": (begin, end)}
        etag, version = map(str, stamp.file)
        if is_strong(etag):
            options["if_match"] = etag
        elif version:
            options["version"] = version
        result = self._obstore.get(self._client, key, options=options)
        _check_same(_stamp_of(result.meta), stamp, result.range, (begin, end))
        if end - begin <= _CHUNK_BYTES:
            yield memoryview(result.bytes())
            return
        # Each chunk costs a switch of threads.
        least = max(_CHUNK_BYTES, (end - begin) // _CHUNKS)
        for chunk in result.stream(min_chunk_size=least):
            yield memoryview(chunk)

    def head(self, key: str) -> Stamp:
        """Request the stamp of an object.

        Its first byte is asked for, not only its headers: a signed URL is often for GET alone, and
        an error has a body then, with a code such as that of an expired token.
        """
        try:
            got = self._obstore.get(self._client, key, options={"range": (0, 1)})
        except Exception as error:
            if classify(error).kind is not Kind.refused:
                raise
            # An empty object has no first byte; some servers send whole files only.
            got = self._obstore.get(self._client, key)
            if got.meta["size"] == 0 and any(map(len, got.stream(min_chunk_size=1))):
                raise  # the size is wrong
        return _stamp_of(got.meta)

    def list_folder(self, prefix: str, is_recursive: bool) -> tuple[dict[str, Stamp], list[str]]:
        """Return the stamps of the objects in a folder by their names, and the folders in it.

        If it is recursive, there are no folders.
        """
        prefix = prefix.rstrip("/")
        if not is_recursive:
            found = self._obstore.list_with_delimiter(self._client, prefix or None)
            return {each["path"]: _stamp_of(each) for each in found["objects"]}, [
                *found["common_prefixes"]
            ]
        stream = self._obstore.list(self._client, prefix or None, chunk_size=_LIST_CHUNK)
        return {each["path"]: _stamp_of(each) for chunk in stream for each in chunk}, []

    # ---- writing ----

    def put(self, key: str, data: bytes, must_be_new: bool) -> Stamp:
        """Write an object, in one request: it appears whole or not at all.

        Args:
            key: Name of the object in the store.
            data: The bytes.
            must_be_new: Whether there must be no such object. Otherwise it is replaced.
        """
        mode: Literal["create", "overwrite"] = "create" if must_be_new else "overwrite"
        try:
            done = self._obstore.put(self._client, key, data, mode=mode, use_multipart=False)
        except Exception as error:
            # The answer to an attempt before this one may have been lost.
            if classify(error).kind is Kind.exists and self._holds(key, data):
                return self.head(key)
            raise
        return _stamp_of({**done, "size": len(data)})

    def _holds(self, key: str, data: bytes) -> bool:
        """Return whether an object has some bytes."""
        got = self._obstore.get(self._client, key)
        return got.meta["size"] == len(data) and bytes(got.bytes()) == data

    def copy(self, key: str, source: str) -> None:
        """Copy an object to this name."""
        self._obstore.copy(self._client, source, key)

    def delete(self, *keys: str) -> None:
        """Delete objects. Those that do not exist are no error."""
        try:
            self._obstore.delete(self._client, [*keys])
        except Exception as error:
            if classify(error).kind is not Kind.missing:
                raise
            if len(keys) > 1:  # others may be left
                for key in keys:
                    self.delete(key)

    @functools.cached_property
    def writable(self) -> Any:
        """Store of obstore that tries again itself, for objects that are sent in parts."""
        return make_writable(self._root, self._options)


def _check_same(
    got: Stamp, first: Stamp, got_range: tuple[int, int], wanted: tuple[int, int]
) -> None:
    """Check that a response has the requested range and version. Some servers ignore conditions."""
    is_same = got.size == first.size and tuple(got_range) == wanted
    etags = [str(stamp.file[0]).removeprefix("W/") for stamp in (got, first)]
    if all(etags):
        is_same = is_same and etags[0] == etags[1]
    elif got.mtime_ns and first.mtime_ns:
        is_same = is_same and got.mtime_ns == first.mtime_ns
    if not is_same:
        raise RequestError(_REPLACED)


def _stamp_of(meta: Any) -> Stamp:
    """Return the stamp of an object by its metadata, as obstore returns it."""
    changed = meta.get("last_modified")
    seconds = int(changed.timestamp()) if isinstance(changed, datetime) else 0
    etag = canonical_etag(meta.get("e_tag") or "")
    # Listings have no versions, so a version counts only where there is no ETag.
    version = "" if etag else meta.get("version") or ""
    return Stamp((etag, version), meta["size"], seconds * NANOSECONDS)


def _without_values(text: str, options: Mapping[str, Any]) -> str:
    """Return a text without the values of options."""
    for value in options.values():
        if isinstance(value, Mapping):
            text = _without_values(text, value)
        elif len(str(value)) > 3:
            text = text.replace(str(value), "...")
    return text.partition("\n\nDebug source")[0]
