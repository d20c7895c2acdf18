"""Patterns of URLs."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase


def matches(pattern: str, url: str) -> bool:
    """Return whether a URL matches a pattern.

    As for files, ``*``, ``?`` and ``[...]`` stay within a folder, ``**`` stands for any number of
    folders, and hidden names are matched only by patterns that start with a dot.
    """
    return _match_parts(pattern.split("/"), url.split("/"))


def _match_parts(patterns: Sequence[str], names: Sequence[str]) -> bool:
    if not patterns or not names:
        return not patterns and not names
    first, *rest = patterns
    if first != "**":
        return _match_name(first, names[0]) and _match_parts(rest, names[1:])
    if rest and _match_parts(rest, names):
        return True
    if not names[0] or names[0].startswith("."):
        return False
    is_last = not rest and len(names) == 1
    return is_last or _match_parts(patterns, names[1:])


def _match_name(pattern: str, name: str) -> bool:
    is_hidden = name.startswith(".") and pattern.startswith(("*", "?", "["))
    return not is_hidden and fnmatchcase(name, pattern)
