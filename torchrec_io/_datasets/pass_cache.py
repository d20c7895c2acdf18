"""Results of passes over a dataset in the user's cache directory."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from .._storage.cache_folder import cache_folder, make_cache_folder
from .._storage.cached_result import UnusableError, read_result, write_result
from .._storage.digest import digest_text
from .._storage.file_lock import file_lock
from ..checks import counted

logger = logging.getLogger("torchrec_io")

_Result = TypeVar("_Result")

_SUFFIX = ".tfpass"

# Everything that the result of a pass depends on, as texts that are equal if nothing changed, by
# their names in messages.
Identity: TypeAlias = Mapping[str, str]


def cached_pass(
    key: str,
    what: str,
    identity: Identity,
    evaluate: Callable[[], tuple[_Result, int]],
    *,
    encode: Callable[[_Result], bytes],
    decode: Callable[[bytes], _Result],
    allow_lost: bool,
) -> tuple[_Result, int]:
    """Return the cached result of a pass, or make the pass and cache its result.

    If several processes ask for the same result, one makes the pass and the others wait for it.

    Args:
        key: Name of the result. Results of equal names replace each other.
        what: Name of the result in messages.
        identity: Everything that the result depends on.
        evaluate: Makes the pass. It returns the result and the number of records that could not be
            read or parsed.
        encode: Returns the result as bytes.
        decode: Returns the result of such bytes. It raises ValueError, KeyError or TypeError if
            they are not valid.
        allow_lost: Whether a result with lost records can be used.
    """

    def waiting() -> None:
        logger.info("waiting for another process that evaluates %s", what)

    shown = re.sub(r"[^A-Za-z0-9_-]+", "-", key)[:40]
    encoded = key.encode("utf-8", "surrogatepass")
    path = os.path.join(cache_folder(), f"{shown}-{digest_text(encoded, size=10)}{_SUFFIX}")
    with contextlib.suppress(OSError):  # such as a read-only home
        make_cache_folder(os.path.dirname(path))
    with file_lock(f"{path}.lock", waiting):
        try:
            return _load(path, identity, decode, allow_lost=allow_lost)
        except FileNotFoundError:
            pass
        except UnusableError as reason:
            logger.warning("%s is evaluated again: %s", what, reason)
        result, lost = evaluate()
        try:
            write_result(path, {**identity, "lost": lost}, encode(result))
        except OSError as error:  # such as a full disk; the result stays in memory
            logger.info("%s cannot be cached: %s", what, error)
    return result, lost


def _load(
    path: str, identity: Identity, decode: Callable[[bytes], _Result], *, allow_lost: bool
) -> tuple[_Result, int]:
    """Return a result from the cache.

    Raises:
        FileNotFoundError: If there is none.
        UnusableError: If it cannot be used.
    """
    cached, data = read_result(path)
    try:
        changed = [name for name, text in identity.items() if cached[name] != text]
        if changed:
            raise UnusableError(f"{' and '.join(changed)} changed since the result was cached")
        if cached["lost"] and not allow_lost:
            raise UnusableError(
                f"the cached result leaves out {counted(cached['lost'], 'record')} with errors, "
                "which on_error does not allow"
            )
        return decode(data), cached["lost"]
    except (ValueError, KeyError, TypeError):
        raise UnusableError(f"the cached result is damaged ({path})") from None
