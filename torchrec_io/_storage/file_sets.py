"""Sets of files in one folder, such as the shards of a training set and of a validation set.

The names of shards, ``name-00001-of-00003``, say how many there are.
"""

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from ..checks import counted

_MOST_NAMED = 10
_MOST_MISSING_NAMED = 3
_SHARD_NAME = re.compile(r"(.*)-(\d{1,9})-of-(\d{1,9})(?!\d)(.*)", re.DOTALL)
_COMPRESSED_SUFFIX = re.compile(r"(\.gz|\.zz|\.zlib|\.zst)?\Z")
# A word for a part of a data set, in the name of a file that is not a numbered shard.
_SPLIT_WORD = re.compile(
    r"(?<![A-Za-z])(?i:train(ing)?|val(id(ation|ate)?)?|test(ing)?|dev|eval(uation)?)(?![a-z])"
)


def match_shard(path: str) -> re.Match[str] | None:
    """Return the start, number, total and end of a shard's name as groups; None for others."""
    matched = _SHARD_NAME.fullmatch(os.path.basename(path))
    return None if matched is None or int(matched[2]) > int(matched[3]) else matched


def set_name(path: str) -> str:
    """Return the name of a set of shards from the path of one; the own name of another file."""
    matched = match_shard(path)
    return os.path.basename(path) if matched is None else matched[1]


def check_complete(files: Iterable[str], pattern: str | None = None) -> None:
    """Raise an error if shards are missing among the files that a folder or pattern stands for.

    A pattern that has digits, or only some digits, in the place of the shard's number asks for some
    of the shards. Then nothing is missing.

    Args:
        files: Data files. Indexes are not data files.
        pattern: Glob pattern that the files match; None for the files of a folder.

    Raises:
        FileNotFoundError: If names say that there are more shards than these.
        ValueError: If there are shards of one name that say different numbers of shards.
    """
    for members in file_sets([file for file in files if match_shard(file)]):
        shards = [shard for shard in map(match_shard, members) if shard is not None]
        start = os.path.join(os.path.dirname(members[0]), shards[0][1])
        wanted: list[str] = []
        named: list[str] = []
        lost = total = 0
        for count in dict.fromkeys(shard[3] for shard in shards):
            numbers = {int(shard[2]): shard[2] for shard in shards if shard[3] == count}
            width = min(map(len, numbers.values()))
            ends = f"{start}-", f"-of-{count}{shards[0][4]}"
            if not _asks_for_all(pattern, ends, width):
                continue
            wanted.append(count)
            begin = int(int(count) in numbers and 0 not in numbers)  # some count from 1
            expected = range(begin, begin + int(count))
            found = sum(number in expected for number in numbers)
            lost += len(expected) - found
            total += len(expected) if found < len(expected) else 0
            missing = (str(n).zfill(width).join(ends) for n in expected if n not in numbers)
            named += itertools.islice(map(repr, missing), _MOST_MISSING_NAMED - len(named))
        if lost:
            raise FileNotFoundError(
                f"{lost:,} of {counted(total, 'shard')} {'is' if lost == 1 else 'are'} missing: "
                f"{named_some(lost, named)}; restore what is missing, or name the files that "
                "exist in a list (tools: allow_missing=True, --allow-missing)"
            )
        if len(wanted) > 1:
            raise ValueError(
                f"{start!r} has two sets of shards, -of-{wanted[0]} and -of-{wanted[1]}; choose "
                f"one with a pattern such as '{start}-*-of-{wanted[1]}', or name all files in a "
                "list (tools: allow_missing=True, --allow-missing)"
            )


def _asks_for_all(pattern: str | None, ends: tuple[str, str], width: int) -> bool:
    """Return whether a pattern, or a folder (None), stands for shards of any number.

    Args:
        pattern: The pattern.
        ends: Path of a shard before and after its number.
        width: Number of digits.
    """
    if pattern is None:
        return True
    names = (os.path.basename((digit * width).join(ends)) for digit in "0123456789")
    return all(fnmatch.fnmatch(name, os.path.basename(pattern)) for name in names)


def data_files(
    folder: str, files: Iterable[str], folders: Iterable[str], is_data: Callable[[str], bool]
) -> list[str]:
    """Return the data files in a folder, in order.

    Args:
        folder: Path or URL of the folder.
        files: Names of the files in it.
        folders: Names of the folders in it.
        is_data: Whether the name of a file is that of a data file.

    Raises:
        FileNotFoundError: If there is no data file. The error names the folders in the folder.
    """
    found = sorted(os.path.join(folder, name) for name in files if is_data(name))
    if found:
        return found
    reason = f"the folder {folder!r} holds no file with the name of a data file"
    below = sorted(os.path.join(folder, name) for name in folders if name[0] not in "._")
    if below:
        named = named_some(len(below), map(repr, below))
        raise FileNotFoundError(f"{reason}, but has folders: {named}; pass one of these")
    raise FileNotFoundError(f"{reason}; use a pattern")


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
    """Return the sets that data files belong to, in order.

    Shards whose names differ only in their number, total or compression are one set. All other
    files are one set; but if their names have words for different parts of a data set, such as
    "train" and "val", there is one set for each word. If a file of a set is there both plain and
    compressed, there is one set for each compression.
    """
    plain = [_COMPRESSED_SUFFIX.sub("", file) for file in files]
    keys = [_set_key(file) for file in plain]
    if len({key for key in keys if len(key) == 1} - {("",)}) == 1:
        keys = [("",) if len(key) == 1 else key for key in keys]
    counts = Counter(zip(keys, plain, strict=True))
    copied = {key for (key, _), count in counts.items() if count > 1}
    sets: dict[tuple[str, ...], list[str]] = {}
    for file, name, key in zip(files, plain, keys, strict=True):
        sets.setdefault((*key, file[len(name) :]) if key in copied else key, []).append(file)
    return list(sets.values())


def _set_key(file: str) -> tuple[str, ...]:
    """Return the folder, start and end of a shard; of another file, only its word or ""."""
    folder, name = os.path.split(file)
    shard = match_shard(name)
    if shard is not None:
        return folder, shard[1], shard[4]
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
