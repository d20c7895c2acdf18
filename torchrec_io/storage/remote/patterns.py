"""Patterns of URLs."""

from __future__ import annotations

import re
from collections.abc import Callable

_FOLDERS = r"(?:(?!\.)[^/]+/)*"
_BELOW = r"(?:(?!\.)[^/]+)(?:/(?!\.)[^/]+)*"
_MEMBERS = re.compile("(.)-(.)|(.)", re.DOTALL)


def matcher_of(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether a URL matches a pattern.

    As for files, ``*``, ``?`` and ``[...]`` stay within a folder, ``**`` stands for any number of
    folders, and hidden names are matched only by patterns that start with a dot.
    """
    *folders, last = pattern.split("/")
    texts = [_FOLDERS if part == "**" else f"{_translate(part)}/" for part in folders]
    texts.append(_BELOW if last == "**" else _translate(last))
    compiled = re.compile("".join(texts))
    return lambda url: compiled.fullmatch(url) is not None


def _translate(part: str) -> str:
    """Return the regular expression of a part of a pattern. It never matches a slash.

    That of :mod:`fnmatch` does, and its form differs between versions of Python.
    """
    texts = [r"(?!\.)"] if part.startswith(("*", "?", "[")) else []
    at = 0
    while at < len(part):
        char = part[at]
        at += 1
        if char == "*":
            texts.append("[^/]*")
        elif char == "?":
            texts.append("[^/]")
        elif char == "[" and (end := _end_of_set(part, at)) >= 0:
            texts.append(_translate_set(part[at:end]))
            at = end + 1
        else:
            texts.append(re.escape(char))
    return "".join(texts)


def _end_of_set(part: str, begin: int) -> int:
    """Return where the characters of a set end; -1 if nothing ends them."""
    first = begin + part.startswith("!", begin)
    return part.find("]", first + 1)  # the first character is a member, also if it is a bracket


def _translate_set(members: str) -> str:
    is_negated = members.startswith("!")
    texts = [
        re.escape(single) if single else f"{re.escape(first)}-{re.escape(last)}"
        for first, last, single in _MEMBERS.findall(members[is_negated:])
        if first <= last
    ]
    if not texts:  # nothing is in a range that descends
        return "[^/]" if is_negated else "(?!)"
    return f"(?!/)[{'^' if is_negated else ''}{''.join(texts)}]"
