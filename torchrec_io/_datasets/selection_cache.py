"""Results of predicates in the user's cache directory."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._order.selection import Subset
from .._storage.cache_folder import cache_folder
from .._storage.digest import digest_text
from .pass_cache import Identity, cached_pass

SUFFIX = ".tfsel"


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

    Args:
        key: Name of the predicate.
        identity: Everything that the result depends on.
        total: Number of records to choose from.
        evaluate: Evaluates the predicate.
        allow_lost: Whether a result with lost records can be used.
    """

    def encode(positions: Subset) -> bytes:  # a bit for each record
        return positions.words.astype("<u8", copy=False).tobytes()

    def decode(bits: bytes) -> Subset:
        return Subset(total, np.frombuffer(bits, "<u8").astype(np.uint64))

    result = cached_pass(
        _path_of(key),
        f"the predicate of {key!r}",
        identity,
        evaluate,
        encode=encode,
        decode=decode,
        allow_lost=allow_lost,
    )
    return Picked(*result)


def _path_of(key: str) -> str:
    shown = re.sub(r"[^A-Za-z0-9_-]+", "-", key)[:40]
    encoded = key.encode("utf-8", "surrogatepass")
    return os.path.join(cache_folder(), f"{shown}-{digest_text(encoded, size=10)}{SUFFIX}")
