"""Which records a split such as ``"train[:80%]+validation"`` is, as TFDS has it.

The rules are those of ``core/splits.py`` and ``core/subsplits_utils.py`` of TFDS 4.9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ..checks import is_integer
from ..order.split import percent_of
from ..schema.bounded_json import shown
from ..schema.checks import set_fields

ShardLengths: TypeAlias = "Mapping[str, Sequence[int]]"

_ALL = "all"
_TERM = re.compile(r"(?P<name>[\w-]+)(?:\[(?P<slice>[\w%:.-]+)\])?")
_BOUNDARY = re.compile(r"(?:(?P<number>-?[\d_.]+)(?P<unit>%|shard)?)?")
_PLUS = re.compile(r"\s*\+\s*")
_MOST_TERMS = 10_000


class Stretch(NamedTuple):
    """Records ``begin..end-1`` of a split."""

    split: str
    begin: int
    end: int


@dataclass(frozen=True)
class _Term:
    """A split, or a slice of one.

    Attributes:
        text: As it was written.
        split: Its name.
        begin: Where it starts, or None.
        end: Where it ends, or None.
        unit: What these count: "abs" (records), "%" or "shard".
    """

    text: str
    split: str
    begin: float | None = None
    end: float | None = None
    unit: str = "abs"

    def stretches(self, lengths: ShardLengths) -> list[Stretch]:
        """The records."""
        if self.split == _ALL:
            return [Stretch(name, 0, sum(of)) for name, of in lengths.items()]
        if self.split not in lengths:
            raise self._error(f"there is no split {self.split!r}", lengths)
        shards = lengths[self.split]
        size = sum(shards)
        begin = 0 if self.begin is None else self._boundary(self.begin, shards, size)
        end = size
        if self.end is not None:
            # As TFDS has it: 0 shards, too, are counted from the end, which makes it all of them.
            from_behind = self.unit == "shard" and self.end <= 0
            last = self.end + len(shards) if from_behind else self.end
            end = self._boundary(last, shards, size)
        if abs(begin) > size or abs(end) > size:
            raise self._error(f"there are only {size} records", lengths)
        begin, end = (place + size if place < 0 else place for place in (begin, end))
        if begin > end:
            reason = f"it ends at record {end}, before it begins at record {begin}"
            raise self._error(reason, lengths)
        return [Stretch(self.split, begin, end)]

    def _boundary(self, number: float, shards: Sequence[int], size: int) -> int:
        if self.unit == "%":
            return percent_of(number, size)
        return int(number) if self.unit == "abs" else sum(shards[: int(number)])

    def _error(self, reason: str, lengths: ShardLengths) -> ValueError:
        return ValueError(f"split {shown(self.text)}: {reason}; the dataset has {listed(lengths)}")


@dataclass(frozen=True)
class _Even:
    """One of several parts of the same size: each part of a sum is divided by itself."""

    of: TfdsSplit
    index: int
    count: int
    drop_remainder: bool

    def stretches(self, lengths: ShardLengths) -> list[Stretch]:
        """The records."""
        return [self._part(whole) for whole in self.of.stretches(lengths)]

    def _part(self, whole: Stretch) -> Stretch:
        each, left = divmod(whole.end - whole.begin, self.count)
        bounds = [whole.begin + each * place for place in (self.index, self.index + 1)]
        if left and not self.drop_remainder:
            bounds = [
                bound + min(place, left)
                for bound, place in zip(bounds, (self.index, self.index + 1), strict=True)
            ]
        return Stretch(whole.split, *bounds)


@dataclass(frozen=True, init=False, repr=False)
class TfdsSplit:
    """A split of a TFDS dataset, a slice of one, or a sum of some; gives the records TFDS gives.

    Wherever one may be given, so may its text; :func:`even_splits` makes others. ``a + b`` are the
    records of both.

    * ``"train"``, ``"all"`` (every split, in the order of dataset_info.json)
    * ``"train[:80%]"``, ``"train[10%:20%]"``, ``"train[-12.5%:]"``: rounded to the nearest record
    * ``"train[100:200]"``, ``"train[-100:]"``: record numbers
    * ``"train[2shard:4shard]"``, ``"train[-1shard:]"``, ``"train[3shard]"``: whole files
    * ``"train[:50%]+validation"``, sums of these

    Args:
        text: One of the above.

    Raises:
        ValueError: it is none. Whether there are such splits and records is only known when one is
            used: then, too, it is a ValueError, which lists the splits.
    """

    _parts: tuple[_Term | _Even, ...]
    _text: str = field(compare=False)

    def __init__(self, text: str) -> None:
        terms = _PLUS.split(str(text), _MOST_TERMS)
        set_fields(self, _parts=tuple(_parse(term, str(text)) for term in terms), _text=str(text))

    @classmethod
    def of(cls, split: str | TfdsSplit) -> TfdsSplit:
        """A split as it is, or from its text."""
        if isinstance(split, TfdsSplit):
            return split
        if not isinstance(split, str):
            raise ValueError(  # noqa: TRY004  # as for any other value that is no split
                f"split must be a text such as 'train[:80%]' or a TfdsSplit, not {split!r}"
            )
        return cls(split)

    @classmethod
    def _made(cls, parts: tuple[_Term | _Even, ...], text: str) -> TfdsSplit:
        made = cls.__new__(cls)
        set_fields(made, _parts=parts, _text=text)
        return made

    def stretches(self, lengths: ShardLengths) -> list[Stretch]:
        """The records, in order.

        Args:
            lengths: Of each split, in order, how many records each of its shards has.

        Raises:
            ValueError: there is no such split, a boundary lies outside of it, or a slice ends
                before it begins.
        """
        return [stretch for part in self._parts for stretch in part.stretches(lengths)]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the splits in it; "all" for all."""
        found: dict[str, None] = {}
        for part in self._parts:
            found |= dict.fromkeys(part.of.names if isinstance(part, _Even) else [part.split])
        return tuple(found)

    def __add__(self, other: str | TfdsSplit) -> TfdsSplit:
        if not isinstance(other, (str, TfdsSplit)):
            return NotImplemented
        other = TfdsSplit.of(other)
        return self._made((*self._parts, *other._parts), f"{self}+{other}")

    def __radd__(self, other: str) -> TfdsSplit:
        return TfdsSplit.of(other) + self if isinstance(other, str) else NotImplemented

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"TfdsSplit({self._text!r})"


def even_splits(split: str | TfdsSplit, n: int, *, drop_remainder: bool = False) -> list[TfdsSplit]:
    """Parts of a split that do not overlap and are of the same size, as ``tfds.even_splits``.

    Args:
        split: What is divided. Each term of a sum is divided by itself.
        n: How many parts.
        drop_remainder: Leave out records so that the parts are of exactly the same size. Otherwise
            the first ones get one more.

    Raises:
        ValueError: ``split`` is no split, or ``n`` no whole number from 1.
    """
    if not is_integer(n) or n < 1:
        raise ValueError(f"n must be a whole number of at least 1, not {n!r}")
    whole = TfdsSplit.of(split)
    return [
        TfdsSplit._made(  # noqa: SLF001  # of this module
            (_Even(whole, index, int(n), drop_remainder),),
            f"even_splits({str(whole)!r}, {n})[{index}]",
        )
        for index in range(n)
    ]


def listed(lengths: ShardLengths) -> str:
    """The splits of a dataset, for errors."""
    names = [f"{name!r} ({sum(of)} records)" for name, of in lengths.items()]
    return ", ".join(names) or "none"


def _parse(term: str, text: str) -> _Term:
    found = _TERM.fullmatch(term)
    if found is None:
        raise _bad(text, f"{shown(term)} is not understood")
    name, inside = found["name"], found["slice"]
    if inside is None:
        return _Term(term, name)
    if name == _ALL:
        raise _bad(text, f"{_ALL!r} has no slices")
    bounds = [_BOUNDARY.fullmatch(bound) for bound in inside.split(":")]
    if len(bounds) > 2 or None in bounds or not any(b and b[0] for b in bounds):
        raise _bad(text, f"{shown(inside)} is no slice")
    numbers = [bound and bound["number"] for bound in bounds]
    units = [bound and bound["unit"] for bound in bounds]
    # As TFDS has it, a unit that one boundary lacks is that of the other.
    unit = next((u for u in units if u), None) or "abs"
    if len(bounds) == 1 and unit != "shard":
        raise _bad(text, f"{shown(inside)} is one record, not a slice such as '[10:11]'")
    try:
        begin, *rest = (_number(number, unit) for number in numbers)
    except ValueError:
        raise _bad(text, f"{shown(inside)} is no slice") from None
    if unit == "%" and any(abs(bound) > 100 for bound in (begin, *rest) if bound is not None):
        raise _bad(text, "a percentage lies outside -100%..100%")
    if not rest:
        assert begin is not None
        return _Term(term, name, begin, begin + 1, unit)
    return _Term(term, name, begin, rest[0], unit)


def _number(text: str | None, unit: str) -> float | None:
    if text is None:
        return None
    return float(text) if unit == "%" else int(text)


def _bad(text: str, reason: str) -> ValueError:
    return ValueError(
        f"split {shown(text)}: {reason}; splits look like 'train', 'train[:80%]', "
        "'train[100:200]', 'train[2shard:]', 'train+test'"
    )
