"""Sets of files in one folder, such as the shards of a training set and of a validation set."""

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from ..checks import counted
from .shard_names import match_shard, uncompressed_name

_MOST_NAMED = 10
# A word for a part of a data set, in the name of a file that is not a numbered shard.
_SPLIT_WORD = re.compile(
    r"(?<![A-Za-z])(?i:train(ing)?|val(id(ation|ate)?)?|test(ing)?|dev|eval(uation)?)(?![a-z])"
)


def check_one_set(folder: str, files: Sequence[str]) -> None:
    """Raise an error if the data files of a folder are several sets, which must not be mixed.

    Raises:
        ValueError: If they are. The error lists a pattern for each set.
    """
    sets = file_sets(files)
    if len(sets) <= 1:
        return
    named = named_some(len(sets), (_described(members, files) for members in sets))
    every = os.path.join(glob.escape(folder), "*")
    raise ValueError(
        f"the directory {folder!r} has {len(sets):,} sets of files: {named}; choose one of these "
        f"patterns, or pass {every!r} to read all files"
    )


def named_some(count: int, texts: Iterable[str]) -> str:
    """Return a list for a message: the first few texts, and the number of further ones."""
    named = list(itertools.islice(texts, _MOST_NAMED))
    return ", ".join([*named, f"{count - len(named):,} more"] if count > len(named) else named)


def _described(members: Sequence[str], files: Sequence[str]) -> str:
    pattern = pattern_of(members, set(files) - set(members))
    return repr(pattern) if pattern else f"{members[0]!r} and {counted(len(members) - 1, 'other')}"


def file_sets(files: Sequence[str]) -> list[list[str]]:
    """Return the sets that the data files of a folder belong to, in order.

    Shards whose names differ only in their number, total or compression are one set. All other
    files are one set; but if their names have words for different parts of a data set, such as
    "train" and "val", there is one set for each word. If a file of a set is there both plain and
    compressed, there is one set for each compression.
    """
    plain = [uncompressed_name(os.path.basename(file)) for file in files]
    keys = [_set_key(name) for name in plain]
    if len({key for key in keys if len(key) == 1} - {("",)}) == 1:
        keys = [("",) if len(key) == 1 else key for key in keys]
    counts = Counter(zip(keys, plain, strict=True))
    copied = {key for (key, _), count in counts.items() if count > 1}
    sets: dict[tuple[str, ...], list[str]] = {}
    for file, name, key in zip(files, plain, keys, strict=True):
        suffix = os.path.basename(file)[len(name) :]
        sets.setdefault((*key, suffix) if key in copied else key, []).append(file)
    return list(sets.values())


def _set_key(name: str) -> tuple[str, ...]:
    """Return the start and end of a shard's name; of another name, only its word or ""."""
    shard = match_shard(name)
    if shard is not None:
        return shard[1], shard[4]
    word = _SPLIT_WORD.search(name)
    return ("" if word is None else word[0].lower(),)


def pattern_of(files: Sequence[str], others: Iterable[str] | None) -> str | None:
    """Return a glob pattern that matches some files of a folder, and no other file of it.

    Args:
        files: Files that the pattern must match.
        others: All other files of the folder; None if they are not known.

    Returns:
        The pattern, or None if there is none.
    """
    if len(files) == 1:
        return glob.escape(files[0])
    names = [os.path.basename(file) for file in files]
    shards = [shard for shard in map(match_shard, names) if shard is not None]
    if len(shards) == len(names) and len({shard[1] for shard in shards}) == 1:
        start = f"{shards[0][1]}-"
        ends = [name[shard.end(2) :] for name, shard in zip(names, shards, strict=True)]
        end = glob.escape(_common_start(ends)) + ("*" if len(set(ends)) > 1 else "")
        # Unlike the first, the second pattern cannot match a longer name.
        wildcards = ["*", "?" * len(shards[0][2])]
    else:
        start = _common_start(names).rstrip("0123456789")
        reversed_ends = [name[len(start) :][::-1] for name in names]
        end = glob.escape(_common_start(reversed_ends)[::-1])
        wildcards = ["*"]
    folder = os.path.dirname(files[0])
    known = {os.path.basename(other) for other in others or ()}
    for wildcard in wildcards if others is not None else wildcards[-1:]:
        pattern = f"{glob.escape(start)}{wildcard}{end}"
        if len(fnmatch.filter(names, pattern)) == len(names) and not fnmatch.filter(known, pattern):
            return os.path.join(glob.escape(folder), pattern)
    return None


def _common_start(texts: Sequence[str]) -> str:
    return os.path.commonprefix(texts)  # noqa: RUF071  # of characters, not of folders
