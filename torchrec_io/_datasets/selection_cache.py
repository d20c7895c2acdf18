"""Results of predicates in the user's cache directory."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

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

_DIGEST_BYTES = 16

# Everything that the result of a predicate depends on, as texts that are equal if nothing changed,
# by their names in messages.
Identity: TypeAlias = Mapping[str, str]


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
    identity: Identity,
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

    def waiting() -> None:
        logger.info("waiting for another process that evaluates the predicate of %r", key)

    with contextlib.suppress(OSError):  # such as a read-only home
        make_cache_folder(os.path.dirname(path))
    with file_lock(f"{path}.lock", waiting):
        try:
            return _load(path, identity, total, allow_lost=allow_lost)
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


def _load(path: str, identity: Identity, total: int, *, allow_lost: bool) -> Picked:
    """Return a result from the cache.

    Raises:
        FileNotFoundError: If there is none.
        _UnusableError: If it cannot be used.
    """
    try:
        with open(path, "rb") as file:
            if not is_own_cache_file(path, os.fstat(file.fileno())):
                raise _UnusableError("others can write the cached result, or it is of another user")
            content = file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _UnusableError(f"the cached result cannot be read ({error})") from None
    damaged = _UnusableError(f"the cached result is damaged ({path})")
    body, check = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if digest(body, size=_DIGEST_BYTES) != check:
        raise damaged
    try:
        head, _, bits = body.partition(b"\n")
        cached = json.loads(head)
        changed = [name for name, text in identity.items() if cached[name] != text]
        if changed:
            raise _UnusableError(f"{' and '.join(changed)} changed since the result was cached")
        if cached["lost"] and not allow_lost:
            raise _UnusableError(
                f"the cached result leaves out {counted(cached['lost'], 'record')} with errors, "
                "which on_error does not allow"
            )
        words = np.frombuffer(bits, "<u8").astype(np.uint64)
        return Picked(Subset(total, words), cached["lost"])
    except (ValueError, KeyError, TypeError):
        raise damaged from None


def _save(path: str, identity: Identity, picked: Picked) -> None:
    """Write a result to the cache, if this is possible.

    The file has a line of JSON, one bit for each record, and a digest of both.
    """
    head = json.dumps({**identity, "lost": picked.lost}).encode()
    body = head + b"\n" + picked.positions.words.astype("<u8", copy=False).tobytes()
    try:
        write_cached(path, body + digest(body, size=_DIGEST_BYTES))
    except OSError as error:  # such as a full disk; the result stays in memory
        logger.info("the result of a predicate cannot be cached: %s", error)
