"""Results in the user's cache directory: facts about them, their data, and a checksum of both."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from .cache_folder import is_own_cache_file, write_cached
from .digest import digest
from .local import StrPath

_DIGEST_BYTES = 16


class UnusableError(Exception):
    """A cached result that cannot be used. Its message is the reason, as a clause."""


def read_result(path: StrPath) -> tuple[Any, bytes]:
    """Return the facts and the data of a cached result.

    Raises:
        FileNotFoundError: If there is none.
        UnusableError: If it cannot be read, is damaged, or others could have written it.
    """
    try:
        with open(path, "rb") as file:
            if not is_own_cache_file(path, os.fstat(file.fileno())):
                raise UnusableError("others can write the cached result, or it is of another user")
            content = file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnusableError(f"the cached result cannot be read ({error})") from None
    body, check = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    facts, _, data = body.partition(b"\n")
    try:
        if digest(body, size=_DIGEST_BYTES) == check:
            return json.loads(facts), data
    except ValueError:
        pass
    raise UnusableError(f"the cached result is damaged ({os.fspath(path)})")


def write_result(path: StrPath, facts: Mapping[str, Any], data: bytes) -> None:
    """Write a result to the cache.

    Args:
        path: Path of a file in the cache directory.
        facts: Facts about the result, as JSON values.
        data: The result.

    Raises:
        OSError: If the file cannot be written.
    """
    body = json.dumps(facts).encode() + b"\n" + data
    write_cached(path, body + digest(body, size=_DIGEST_BYTES))
