"""Messages between a process that loads and its helper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

# A part of an object; stores take no smaller ones, except the last.
PART_BYTES = 8 << 20
# Giving up uploads that nobody will finish may take this long.
SECONDS_TO_GIVE_UP = 4.0


class StoreAddress(NamedTuple):
    """A store, and the options that requests to it have. It may have secrets.

    Attributes:
        root: The store, such as ``"s3://bucket"``; of HTTP, the server with what is secret.
        identity: Text that is equal for equal options.
        options: The user's ``storage_options``.
    """

    root: str
    identity: str
    options: Mapping[str, Any]


def canonical_etag(etag: str) -> str:
    """Return an ETag with its quotes, which some answers of a server lack."""
    weak = "W/" if etag.startswith("W/") else ""
    bare = etag.removeprefix("W/").strip('"')
    return f'{weak}"{bare}"' if bare else ""


def is_strong(etag: str) -> bool:
    """Return whether a server compares an ETag with that of an object."""
    return bool(etag) and not etag.startswith("W/")
