"""Single requests to stores of obstore. Runs in the helper process alone."""

from __future__ import annotations

import functools
import importlib
from datetime import datetime
from typing import Any

from .deadline import Deadline
from .failures import Failure, Kind, classify
from .messages import ObjectInfo, Put, canonical_etag
from .stores import Store

_LIST_CHUNK = 1000
_UNEXPLAINED = Failure(Kind.refused, "HTTP 400")


class WrongObjectError(Exception):
    """The answer is about another object than the request."""


@functools.cache
def _obstore() -> Any:
    """Return the package, which is loaded with the first store."""
    return importlib.import_module("obstore")


def check_same(
    got: ObjectInfo, pin: ObjectInfo, got_range: tuple[int, int], wanted: tuple[int, int]
) -> None:
    """Compare an answer with what was asked for. Not every server obeys conditions."""
    is_same = got.size == pin.size and tuple(got_range) == wanted
    if got.etag and pin.etag:
        is_same = is_same and got.etag.removeprefix("W/") == pin.etag.removeprefix("W/")
    elif got.mtime and pin.mtime:
        is_same = is_same and got.mtime == pin.mtime
    if not is_same:
        raise WrongObjectError("the object was replaced")


def info_of_meta(meta: Any) -> ObjectInfo:
    """Return what obstore says about an object."""
    changed = meta.get("last_modified")
    seconds = int(changed.timestamp()) if isinstance(changed, datetime) else 0
    etag = canonical_etag(meta.get("e_tag") or "")
    # Listings have no versions, so a version counts only where there is no ETag.
    version = "" if etag else meta.get("version") or ""
    return ObjectInfo(meta["path"], meta["size"], etag, version, seconds)


async def head(store: Store, key: str) -> ObjectInfo:
    """Return what a store says about an object."""
    if store.is_web:
        # A signed URL is often for GET alone. An empty file has no first byte.
        try:
            got = await _obstore().get_async(store.client, key, options={"range": (0, 1)})
            return info_of_meta(got.meta)
        except Exception as error:
            if classify(error).kind is not Kind.refused:
                raise
            info = info_of_meta(await _obstore().head_async(store.client, key))
            if info.size == 0 and await _has_body(store.client, key):
                raise  # the size is wrong
            return info
    try:
        return info_of_meta(await _obstore().head_async(store.client, key))
    except Exception as error:
        if classify(error) != _UNEXPLAINED:
            raise
    # The answer to HEAD has no body, and so no code, such as that of an expired token.
    got = await _obstore().get_async(store.client, key, options={"range": (0, 1)})
    return info_of_meta(got.meta)


async def _has_body(client: Any, key: str) -> bool:
    """Return whether a server sends bytes of an object."""
    got = await _obstore().get_async(client, key)
    async for chunk in got.stream(min_chunk_size=1):
        if len(chunk) > 0:
            return True
    return False


async def list_objects(
    client: Any, prefix: str, is_recursive: bool, deadline: Deadline
) -> list[ObjectInfo]:
    """Return the objects in a folder. Each page of the listing extends the deadline."""
    prefix = prefix.rstrip("/")
    if not is_recursive:
        found = await _obstore().list_with_delimiter_async(client, prefix or None)
        return [info_of_meta(meta) for meta in found["objects"]]
    stream = _obstore().list(client, prefix or None, chunk_size=_LIST_CHUNK)
    infos: list[ObjectInfo] = []
    async for chunk in stream:
        deadline.extend()
        infos += map(info_of_meta, chunk)
    return infos


async def list_folders(client: Any, prefix: str) -> list[str]:
    """Return the folders in a folder."""
    found = await _obstore().list_with_delimiter_async(client, prefix.rstrip("/") or None)
    return list(found["common_prefixes"])


async def put(client: Any, wanted: Put, attempt: int) -> ObjectInfo:
    """Write an object, in one request: it appears whole or not at all."""
    mode: Any = "create" if wanted.only_if == "absent" else "overwrite"
    if isinstance(wanted.only_if, ObjectInfo):
        # Stores compare either ETags or versions, and listings have no versions.
        present = await _obstore().head_async(client, wanted.key)
        if info_of_meta(present)[1:3] != wanted.only_if[1:3]:
            raise WrongObjectError("the object was replaced")
        mode = {name: present[name] for name in ("e_tag", "version") if present.get(name)}
    try:
        done = await _obstore().put_async(
            client, wanted.key, wanted.data, mode=mode, use_multipart=False
        )
    except Exception as error:
        # The answer to the attempt before this one may have been lost.
        is_condition = classify(error).kind in {Kind.exists, Kind.changed}
        if is_condition and attempt > 1 and await _has(client, wanted):
            return info_of_meta(await _obstore().head_async(client, wanted.key))
        raise
    etag = canonical_etag(done["e_tag"] or "")
    version = "" if etag else done["version"] or ""
    return ObjectInfo(wanted.key, len(wanted.data), etag, version, 0)


async def _has(client: Any, wanted: Put) -> bool:
    """Return whether an object has the bytes that it was to get."""
    got = await _obstore().get_async(client, wanted.key)
    if got.meta["size"] != len(wanted.data):
        return False
    return bytes(await got.bytes_async()) == wanted.data


async def delete(client: Any, keys: list[str]) -> None:
    """Delete objects. Those that do not exist are no error."""
    try:
        await _obstore().delete_async(client, keys)
    except Exception as error:
        if classify(error).kind is not Kind.missing:
            raise
        if len(keys) > 1:  # others may be left
            for key in keys:
                await delete(client, [key])
