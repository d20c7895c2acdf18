"""URLs of remote objects. A *public* URL has nothing in it that is secret."""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

# At least two letters: one letter may be the drive of a path.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://", re.ASCII)
# "s3:/bucket/..." is what pathlib makes of "s3://bucket/...".
_COLLAPSED = re.compile(r"(s3|gs|az|https?):/[^/]", re.ASCII)
# A user with a password, and a query. Those of "github://org:repo@main" name a repository.
_PASSWORD = re.compile(r"(?<!github)(?<!git)://[^/@]*:[^/@]*@", re.IGNORECASE)
_QUERY = re.compile(r"\?\w[\w-]*=", re.ASCII)
_NUMBERS = re.compile(r"\{(\d+)\.\.(\d+)\}")
# Larger ranges are mistakes.
_MOST_NAMES = 1_000_000

# Schemes of stores that obstore reads. Other schemes are those of fsspec.
OBJECT_STORES = frozenset({"s3", "gs", "az", "http", "https"})


class ObjectName(NamedTuple):
    """The place of an object.

    Attributes:
        root: The store: ``"s3://bucket"``, ``"https://host:8080"``.
        key: Name of the object in the store.
    """

    root: str
    key: str


def is_url(path: str) -> bool:
    """Return whether a path is a URL, ``file://`` included."""
    return _URL.match(path) is not None


def is_collapsed_url(path: str) -> bool:
    """Return whether a path is a URL that went through :mod:`pathlib`."""
    return _COLLAPSED.match(path) is not None


def can_pin(url: str) -> bool:
    """Return whether reads of an object can be of exactly the version that was first seen."""
    return scheme_of(url) in OBJECT_STORES


def scheme_of(url: str) -> str:
    """Return the scheme of a URL in lower case; ``""`` if it is a path."""
    matched = _URL.match(url)
    return "" if matched is None else matched[1].lower()


def is_web_url(url: str) -> bool:
    """Return whether a URL is one of HTTP, where ``?`` starts a query."""
    return scheme_of(url) in {"http", "https"}


def local_path(url: str) -> str:
    """Return the path that a ``file://`` URL stands for.

    Raises:
        ValueError: If the URL names another machine.
    """
    parts = urlsplit(url)
    if parts.netloc not in {"", "localhost"}:
        raise ValueError(f"a file:// URL must name a file of this machine, got {url!r}")
    return unquote(parts.path)


def public_url(url: str) -> str:
    """Return a URL without the parts that may be secret: user, password, query and fragment.

    Only URLs of HTTP may have them. In the name of an object or file, ``?`` and ``#`` are ordinary
    characters.

    Raises:
        ValueError: If the URL of a store has a user, or that of a filesystem a password or query.
    """
    if is_web_url(url):
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme.lower(), host, parts.path, "", ""))
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0]
    shown = f"{scheme.lower()}://{host.rpartition('@')[2].partition('?')[0]}"
    is_store = scheme.lower() in OBJECT_STORES
    if "@" in host if is_store else _PASSWORD.search(url):
        raise ValueError(
            f"{shown}: credentials must be in storage_options or in the environment, not in the URL"
        )
    if not is_store and _QUERY.search(rest):
        raise ValueError(
            f"{shown}: the URL must have no query; pass what it says in storage_options"
        )
    return f"{scheme.lower()}://{rest}"


def split_url(url: str) -> ObjectName:
    """Return the store and the key of a public URL."""
    scheme, _, rest = url.partition("://")
    host, _, key = rest.partition("/")
    return ObjectName(f"{scheme}://{host}", key)


def has_ranges(url: str) -> bool:
    """Return whether a URL has a range of numbers, ``{00000..01023}``."""
    return _NUMBERS.search(url) is not None


def expand_ranges(url: str) -> list[str]:
    """Return the URLs that one with ranges of numbers stands for, in ascending order.

    Numbers have as many digits as the first of the range.

    Raises:
        ValueError: If a range is descending, or the URL stands for more than a million names.
    """
    parts: list[list[str]] = []
    at, count = 0, 1
    for matched in _NUMBERS.finditer(url):
        first, last = int(matched[1]), int(matched[2])
        if last < first:
            raise ValueError(f"ranges of numbers must ascend, got {matched[0]!r} in {url!r}")
        count *= last - first + 1
        if count > _MOST_NAMES:
            raise ValueError(f"{url!r} stands for more than {_MOST_NAMES:,} names")
        numbers = [str(number).zfill(len(matched[1])) for number in range(first, last + 1)]
        parts += [[url[at : matched.start()]], numbers]
        at = matched.end()
    return ["".join(chosen) for chosen in itertools.product(*parts, [url[at:]])]
