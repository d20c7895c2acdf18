"""Results of predicates in the user's cache directory."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import struct
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import NamedTuple

import numpy as np

from .._order.selection import Subset
from .._storage.cache_folder import (
    cache_folder,
    is_own_cache_file,
    make_cache_folder,
    write_cached,
)
from .._storage.digest import digest, digest_text
from .._storage.file_lock import file_lock
from ..checks import counted

logger = logging.getLogger("torchrec_io")

SUFFIX = ".tfsel"

_MAGIC = b"\x89TFSEL\x02\n"
_DIGEST_BYTES = 16
# Signature, digests of what a result depends on, records in total, lost records.
_HEAD = struct.Struct(f"<8s{_DIGEST_BYTES}s{_DIGEST_BYTES}s{_DIGEST_BYTES}sQQ")
_NAMES = {
    "files": "the files",
    "schema": "the schema",
    "records": "the records to choose from",
}


@dataclass(frozen=True)
class PassIdentity:
    """Everything that the result of a predicate depends on, as texts: equal if nothing changed.

    Attributes:
        files: The data files.
        schema: The features that are read, and how.
        records: The records on which the predicate is evaluated.
    """

    files: str
    schema: str
    records: str

    def digests(self) -> tuple[bytes, ...]:
        """Return a digest of each text."""
        return tuple(digest(text, size=_DIGEST_BYTES) for text in astuple(self))


class Picked(NamedTuple):
    """The result of a predicate.

    Attributes:
        positions: Positions of the chosen records, among those to choose from.
        lost: Number of records that could not be read or parsed, and so are not chosen.
    """

    positions: Subset
    lost: int


class _UnusableError(Exception):
    """A cached result that cannot be used. Its message is the reason, as a clause."""


def cached_pick(
    key: str,
    identity: PassIdentity,
    total: int,
    evaluate: Callable[[], Picked],
    *,
    allow_lost: bool,
) -> Picked:
    """Return the cached result of a predicate, or evaluate it and cache the result.

    If several processes ask for the same result, one evaluates and the others wait for it.

    Args:
        key: Name of the predicate.
        identity: Everything that the result depends on.
        total: Number of records to choose from.
        evaluate: Evaluates the predicate.
        allow_lost: Whether a result with lost records can be used.
    """
    path = _path_of(key)

    def find() -> Picked:
        return _load(path, identity, total, allow_lost=allow_lost)

    def waiting() -> None:
        logger.info("waiting for another process that evaluates the predicate of %r", key)

    try:
        return find()
    except (FileNotFoundError, _UnusableError):
        pass
    with contextlib.suppress(OSError):  # such as a read-only home
        make_cache_folder(os.path.dirname(path))
    with file_lock(f"{path}.lock", waiting):
        try:
            return find()  # another process may have been faster
        except FileNotFoundError:
            pass
        except _UnusableError as reason:
            logger.warning("the predicate of %r is evaluated again: %s", key, reason)
        picked = evaluate()
        _save(path, identity, picked)
    return picked


def _path_of(key: str) -> str:
    shown = re.sub(r"[^A-Za-z0-9_-]+", "-", key)[:40]
    encoded = key.encode("utf-8", "surrogatepass")
    return os.path.join(cache_folder(), f"{shown}-{digest_text(encoded, size=10)}{SUFFIX}")


def _load(path: str, identity: PassIdentity, total: int, *, allow_lost: bool) -> Picked:
    """Return a result from the cache.

    Raises:
        FileNotFoundError: If there is none.
        _UnusableError: If it cannot be used.
    """
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not is_own_cache_file(path, status):
                raise _UnusableError("others can write the cached result, or it is of another user")
            size = status.st_size
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size or not head.startswith(_MAGIC):
                raise _damaged(path)
            _, *digests, count, lost = _HEAD.unpack(head)
            if size != _HEAD.size + _bytes_of(count) + _DIGEST_BYTES:
                raise _damaged(path)
            if count != total:  # nothing else is read
                _check_same(digests, identity)
                raise _damaged(path)
            rest = file.read(size - _HEAD.size)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _UnusableError(f"the cached result cannot be read ({error})") from None
    bits, check = rest[:-_DIGEST_BYTES], rest[-_DIGEST_BYTES:]
    if digest(head, bits, size=_DIGEST_BYTES) != check:
        raise _damaged(path)
    _check_same(digests, identity)
    if lost and not allow_lost:
        raise _UnusableError(
            f"the cached result leaves out {counted(lost, 'record')} with errors, which on_error "
            "does not allow"
        )
    try:
        return Picked(Subset(total, np.frombuffer(bits, "<u8").astype(np.uint64)), lost)
    except ValueError:
        raise _damaged(path) from None


def _bytes_of(total: int) -> int:
    return -(-total // 64) * 8


def _check_same(digests: list[bytes], identity: PassIdentity) -> None:
    pairs = zip(_NAMES.values(), digests, identity.digests(), strict=True)
    changed = [name for name, cached, now in pairs if cached != now]
    if changed:
        raise _UnusableError(f"{' and '.join(changed)} changed since the result was cached")


def _damaged(path: str) -> _UnusableError:
    return _UnusableError(f"the cached result is damaged ({path})")


def _save(path: str, identity: PassIdentity, picked: Picked) -> None:
    """Write a result to the cache, if this is possible."""
    positions, lost = picked
    head = _HEAD.pack(_MAGIC, *identity.digests(), positions.total, lost)
    bits = positions.words.astype("<u8", copy=False).tobytes()
    try:
        check = digest(head, bits, size=_DIGEST_BYTES)
        write_cached(path, head + bits + check)
    except OSError as error:  # such as a full disk; the result stays in memory
        logger.info("the result of a predicate cannot be cached: %s", error)
