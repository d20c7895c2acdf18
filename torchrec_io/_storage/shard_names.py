"""Names of shards, ``name-00001-of-00003``, and the shards that they say exist."""

from __future__ import annotations

import fnmatch
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ..checks import counted

_SHARD_NAME = re.compile(r"(.*)-(\d{1,9})-of-(\d{1,9})(?!\d)(.*)", re.DOTALL)
_COMPRESSED_SUFFIX = re.compile(r"(\.gz|\.zz|\.zlib|\.zst)?\Z")
_MOST_NAMED = 3


def match_shard(name: str) -> re.Match[str] | None:
    """Return the start, number, total and end of a shard's name as groups; None for others."""
    matched = _SHARD_NAME.fullmatch(name)
    return None if matched is None or int(matched[2]) > int(matched[3]) else matched


def uncompressed_name(name: str) -> str:
    """Return a name without the suffix of a compressed file."""
    return _COMPRESSED_SUFFIX.sub("", name)


@dataclass
class _ShardSet:
    """Shards whose names differ only in their number.

    Attributes:
        start: Text before the number, with the folder.
        count: Number of shards, as their names say it.
        end: Text after the count.
        numbers: Number of each shard that exists, as its name says it.
    """

    start: str
    count: str
    end: str
    numbers: dict[int, str] = field(default_factory=dict)

    @property
    def first(self) -> int:
        """Number of the first shard: 0, or 1 if shards are counted from 1."""
        return int(int(self.count) in self.numbers and 0 not in self.numbers)

    @property
    def lost(self) -> int:
        """Number of shards that do not exist."""
        expected = range(self.first, self.first + int(self.count))
        return len(expected) - sum(number in expected for number in self.numbers)

    def missing(self) -> Iterator[str]:
        """Yield the paths of the shards that do not exist."""
        width = min(map(len, self.numbers.values()))
        for number in range(self.first, self.first + int(self.count)):
            if number not in self.numbers:
                yield self.path(str(number).zfill(width))

    def path(self, number: str) -> str:
        """Return the path of a shard."""
        return f"{self.start}-{number}-of-{self.count}{self.end}"

    def is_wanted_by(self, pattern: str | None) -> bool:
        """Return whether a pattern, or a folder (None), stands for shards of any number."""
        if pattern is None:
            return True
        width = len(next(iter(self.numbers.values())))
        last = os.path.basename(pattern)
        names = (os.path.basename(self.path(digit * width)) for digit in "0123456789")
        return all(fnmatch.fnmatch(name, last) for name in names)


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
    sets = [found for found in _shard_sets(files) if found.is_wanted_by(pattern)]
    incomplete = [found for found in sets if found.lost]
    if incomplete:
        lost = sum(found.lost for found in incomplete)
        total = sum(int(found.count) for found in incomplete)
        missing = itertools.chain.from_iterable(found.missing() for found in incomplete)
        named = [repr(path) for path in itertools.islice(missing, _MOST_NAMED)]
        more = [f"{lost - len(named):,} more"] if lost > len(named) else []
        raise FileNotFoundError(
            f"{lost:,} of {counted(total, 'shard')} {'is' if lost == 1 else 'are'} missing: "
            f"{', '.join([*named, *more])}; restore what is missing, or name the files that exist "
            "in a list (tools: allow_missing=True, --allow-missing)"
        )
    counts: dict[tuple[str, str], str] = {}
    for found in sets:
        other = counts.setdefault((found.start, found.end), found.count)
        if other != found.count:
            raise ValueError(
                f"{found.start!r} has two sets of shards, -of-{other} and -of-{found.count}; "
                f"choose one with a pattern such as '{found.path('*')}', or name all files in a "
                "list (tools: allow_missing=True, --allow-missing)"
            )


def _shard_sets(files: Iterable[str]) -> list[_ShardSet]:
    """Return the sets of shards that files belong to.

    Compressed and uncompressed files make one set, unless there are both of the same shard.
    """
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for file in files:
        folder, name = os.path.split(file)
        matched = match_shard(name)
        if matched is not None:
            start, number, count, end = matched.groups()
            key = os.path.join(folder, start), count, uncompressed_name(end)
            groups.setdefault(key, []).append((number, end))
    sets: dict[tuple[str, str, str], _ShardSet] = {}
    for (start, count, _), shards in groups.items():
        is_one = len({int(number) for number, _ in shards}) == len(shards)
        for number, end in shards:
            set_key = start, count, shards[0][1] if is_one else end
            sets.setdefault(set_key, _ShardSet(*set_key)).numbers[int(number)] = number
    return list(sets.values())
