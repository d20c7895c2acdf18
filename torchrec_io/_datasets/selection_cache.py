"""Results of predicates in the user's cache directory."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from .._order.selection import Subset
from .._storage.cache_folder import cache_folder, make_cache_folder
from .._storage.cached_result import UnusableError, read_result, write_result
from .._storage.digest import digest_text
from .._storage.file_lock import file_lock
from ..checks import counted

logger = logging.getLogger("torchrec_io")

SUFFIX = ".tfsel"

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
        except UnusableError as reason:
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
        UnusableError: If it cannot be used.
    """
    cached, bits = read_result(path)
    try:
        changed = [name for name, text in identity.items() if cached[name] != text]
        if changed:
            raise UnusableError(f"{' and '.join(changed)} changed since the result was cached")
        if cached["lost"] and not allow_lost:
            raise UnusableError(
                f"the cached result leaves out {counted(cached['lost'], 'record')} with errors, "
                "which on_error does not allow"
            )
        words = np.frombuffer(bits, "<u8").astype(np.uint64)
        return Picked(Subset(total, words), cached["lost"])
    except (ValueError, KeyError, TypeError):
        raise UnusableError(f"the cached result is damaged ({path})") from None


def _save(path: str, identity: Identity, picked: Picked) -> None:
    """Write a result to the cache, if this is possible. Its data has one bit for each record."""
    words = picked.positions.words.astype("<u8", copy=False)
    try:
        write_result(path, {**identity, "lost": picked.lost}, words.tobytes())
    except OSError as error:  # such as a full disk; the result stays in memory
        logger.info("the result of a predicate cannot be cached: %s", error)
