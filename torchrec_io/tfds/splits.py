"""Splits such as ``"train[:80%]+validation"``, with the records that TFDS reads for them.

The rules are those of ``core/splits.py`` and ``core/subsplits_utils.py`` of TFDS 4.9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from .._order.split import percent_of
from .._schema.bounded_json import shown
from .._schema.checks import set_fields
from ..checks import check_integer, counted

ShardLengths: TypeAlias = "Mapping[str, Sequence[int]]"

ALL = "all"  # stands for every split
_TERM = re.compile(r"(?P<name>[\w-]+)(?:\[(?P<slice>[\w%:.-]+)\])?")
_BOUNDARY = re.compile(r"(?:(?P<number>-?[\d_.]+)(?P<unit>%|shard)?)?")
_PLUS = re.compile(r"\s*\+\s*")
_MOST_TERMS = 10_000


class SplitRange(NamedTuple):
    """Records ``begin..end-1`` of a split."""

    split: str
    begin: int
    end: int


@dataclass(frozen=True)
class _Slice:
    """A split, or a slice of a split.

    Attributes:
        text: Text of the slice.
        split: Name of the split.
        begin: First boundary, or None.
        end: Second boundary, or None.
        unit: Unit of the boundaries: "abs" (records), "%" or "shard".
    """

    text: str
    split: str
    begin: float | None = None
    end: float | None = None
    unit: str = "abs"

    def ranges(self, lengths: ShardLengths) -> list[SplitRange]:
        """Return the records."""
        if self.split == ALL:
            return [SplitRange(name, 0, sum(of)) for name, of in lengths.items()]
        if self.split not in lengths:
            raise self._error(f"{self.split!r} does not exist", lengths)
        shards = lengths[self.split]
        size = sum(shards)
        begin = 0 if self.begin is None else self._boundary(self.begin, shards, size)
        end = size
        if self.end is not None:
            # Like TFDS, count 0 shards from the end, too: the slice then ends with the last shard.
            is_from_end = self.unit == "shard" and self.end <= 0
            last = self.end + len(shards) if is_from_end else self.end
            end = self._boundary(last, shards, size)
        if abs(begin) > size or abs(end) > size:
            raise self._error(f"it exceeds the {counted(size, 'record')} of the split", lengths)
        begin, end = (place + size if place < 0 else place for place in (begin, end))
        if begin > end:
            reason = f"its end, record {end}, is before its start, record {begin}"
            raise self._error(reason, lengths)
        return [SplitRange(self.split, begin, end)]

    def _boundary(self, number: float, shards: Sequence[int], size: int) -> int:
        if self.unit == "%":
            return percent_of(number, size)
        return int(number) if self.unit == "abs" else sum(shards[: int(number)])

    def _error(self, reason: str, lengths: ShardLengths) -> ValueError:
        return ValueError(
            f"split {shown(self.text)}: {reason}; the splits are {list_splits(lengths)}"
        )


@dataclass(frozen=True)
class _EvenPart:
    """One of several parts of equal size. Each term of a sum is divided separately."""

    of: Split
    index: int
    count: int
    drop_remainder: bool

    def ranges(self, lengths: ShardLengths) -> list[SplitRange]:
        """Return the records."""
        return [self._part(whole) for whole in self.of.ranges(lengths)]

    def _part(self, whole: SplitRange) -> SplitRange:
        each, left = divmod(whole.end - whole.begin, self.count)
        longer = 0 if self.drop_remainder else left  # number of parts with one record more
        begin, end = (
            whole.begin + each * place + min(place, longer)
            for place in (self.index, self.index + 1)
        )
        return SplitRange(whole.split, begin, end)


@dataclass(frozen=True, init=False, repr=False)
class Split:
    """A split of a TFDS dataset, a slice of a split, or a sum of these.

    A split selects the records that TFDS would read. Wherever a split is expected, its text may be
    used instead. :func:`tfds.even_splits` makes other splits. ``a + b`` has the records of both.

    * ``"train"``, or ``"all"`` for every split in the order of dataset_info.json
    * ``"train[:80%]"``, ``"train[10%:20%]"``, ``"train[-12.5%:]"``: rounded to the nearest record
    * ``"train[100:200]"``, ``"train[-100:]"``: record numbers
    * ``"train[2shard:4shard]"``, ``"train[-1shard:]"``, ``"train[3shard]"``: whole files
    * ``"train[:50%]+validation"``: sums of these

    Args:
        text: Text of one of these forms.

    Raises:
        ValueError: If the text is not valid. Whether the splits and records exist is checked when
            the split is used, with a ValueError that lists the splits of the dataset.
    """

    _parts: tuple[_Slice | _EvenPart, ...]
    _text: str = field(compare=False)

    def __init__(self, text: str) -> None:
        terms = _PLUS.split(str(text), _MOST_TERMS)
        set_fields(self, _parts=tuple(_parse(term, str(text)) for term in terms), _text=str(text))

    @classmethod
    def of(cls, split: str | Split) -> Split:
        """Return a split, given the split or its text.

        Raises:
            ValueError: If it is neither, or if the text is not valid.
        """
        if isinstance(split, Split):
            return split
        if not isinstance(split, str):
            raise ValueError(  # noqa: TRY004  # the error of any invalid split
                f"split must be a text such as 'train[:80%]' or a tfds.Split, got {split!r}"
            )
        return cls(split)

    @classmethod
    def _made(cls, parts: tuple[_Slice | _EvenPart, ...], text: str) -> Split:
        made = cls.__new__(cls)
        set_fields(made, _parts=parts, _text=text)
        return made

    def ranges(self, lengths: ShardLengths) -> list[SplitRange]:
        """Return the records, in order.

        Args:
            lengths: Number of records of each shard of each split, in the order of the splits.

        Raises:
            ValueError: If a split does not exist, if a boundary is outside of its split, or if a
                slice ends before it starts.
        """
        return [each for part in self._parts for each in part.ranges(lengths)]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the splits that it is made of; "all" for all splits."""
        found: dict[str, None] = {}
        for part in self._parts:
            found |= dict.fromkeys(part.of.names if isinstance(part, _EvenPart) else [part.split])
        return tuple(found)

    def __add__(self, other: str | Split) -> Split:
        if not isinstance(other, (str, Split)):
            return NotImplemented
        other = Split.of(other)
        return self._made((*self._parts, *other._parts), f"{self}+{other}")

    def __radd__(self, other: str) -> Split:
        return Split.of(other) + self if isinstance(other, str) else NotImplemented

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"tfds.Split({self._text!r})"


def even_splits(split: str | Split, n: int, *, drop_remainder: bool = False) -> list[Split]:
    """Divide a split into parts of equal size that do not overlap, like ``tfds.even_splits``.

    Args:
        split: Split to divide. Each term of a sum is divided separately.
        n: Number of parts.
        drop_remainder: Whether to leave out records so that all parts have exactly the same size.
            Otherwise the first parts get one record more. Default: False.

    Raises:
        ValueError: If ``split`` is not valid, or if ``n`` is not a positive integer.
    """
    n = check_integer("n", n, 1)
    whole = Split.of(split)
    return [
        Split._made(  # noqa: SLF001  # of this module
            (_EvenPart(whole, index, n, drop_remainder),),
            f"even_splits({str(whole)!r}, {n})[{index}]",
        )
        for index in range(n)
    ]


def list_splits(lengths: ShardLengths) -> str:
    """Return the splits of a dataset and their numbers of records, for error messages."""
    names = [f"{name!r} ({counted(sum(of), 'record')})" for name, of in lengths.items()]
    return ", ".join(names) or "none"


def _parse(term: str, text: str) -> _Slice:
    found = _TERM.fullmatch(term)
    if found is None:
        raise _invalid(text, f"{shown(term)} is not a split")
    name, inside = found["name"], found["slice"]
    if inside is None:
        return _Slice(term, name)
    if name == ALL:
        raise _invalid(text, f"{ALL!r} cannot be sliced")
    bounds = [_BOUNDARY.fullmatch(bound) for bound in inside.split(":")]
    if len(bounds) > 2 or None in bounds or not any(b and b[0] for b in bounds):
        raise _invalid(text, f"{shown(inside)} is not a slice")
    numbers = [bound and bound["number"] for bound in bounds]
    units = [bound and bound["unit"] for bound in bounds]
    # Like in TFDS, a boundary without a unit has the unit of the other boundary.
    unit = next((u for u in units if u), None) or "abs"
    if len(bounds) == 1 and unit != "shard":
        raise _invalid(text, f"{shown(inside)} is one record; write a slice such as '[10:11]'")
    try:
        begin, *rest = (_parse_number(number, unit) for number in numbers)
    except ValueError:
        raise _invalid(text, f"{shown(inside)} is not a slice") from None
    if unit == "%" and any(abs(bound) > 100 for bound in (begin, *rest) if bound is not None):
        raise _invalid(text, "a percentage must be from -100% to 100%")
    if not rest:
        assert begin is not None
        return _Slice(term, name, begin, begin + 1, unit)
    return _Slice(term, name, begin, rest[0], unit)


def _parse_number(text: str | None, unit: str) -> float | None:
    if text is None:
        return None
    return float(text) if unit == "%" else int(text)


def _invalid(text: str, reason: str) -> ValueError:
    return ValueError(
        f"split {shown(text)}: {reason}; valid splits are, for example, 'train', 'train[:80%]', "
        "'train[100:200]', 'train[2shard:]', 'train+test'"
    )
