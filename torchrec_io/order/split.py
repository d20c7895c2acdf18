"""Parts of a dataset: a slice written as text, or a random split by records or by groups."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from .. import _core
from ..records.index import RecordIndex
from .selection import CHUNK, Numbers, Selection, Span, Subset, SubsetBuilder

_BOUNDARY = r"(-?[0-9]+(?:_[0-9]+)*)((?:\.[0-9]+)?%)?"
_SLICE = re.compile(rf"\[(?:{_BOUNDARY})?:(?:{_BOUNDARY})?\]")

# ---- slices ----


def parse_slice(text: str, size: int) -> Span:
    """The records of a slice such as ``"[:80%]"``, ``"[-5%:]"`` or ``"[100:200]"``.

    Slices mean what they mean to TensorFlow Datasets in ``split="train[...]"``, that is to
    ``tfds.core.ReadInstruction`` with its default ``rounding="closest"`` (``core/splits.py``,
    version 4.9): a percentage, which may have decimals, is of the number of records, rounded to
    the nearest number of them, to the even one of two; what is negative counts from the end; a
    boundary that lies outside is refused, and so is a slice without records. A percentage that is
    rounded to 0 is boundary 0, even if it was negative: ``"[-5%:]"`` of 4 records is all of them.

    Other than there, ``"[:]"`` and ``""`` are all records, and a percentage and a number do not go
    together in one slice unless the number is 0: TFDS would take both for percentages.

    Args:
        text: The slice.
        size: How many records there are.

    Raises:
        ValueError: the text is no slice, or not one of so many records.
    """
    if not text:
        return Span(0, size, size)
    found = _SLICE.fullmatch(text)
    if found is None:
        raise _bad_slice(text, "not understood")
    from_number, from_rest, to_number, to_rest = found.groups()
    units = {
        rest is not None
        for number, rest in ((from_number, from_rest), (to_number, to_rest))
        if number is not None and (rest is not None or int(number) != 0)
    }
    if len(units) == 2:
        raise _bad_slice(text, "a percentage and a number")
    begin = 0 if from_number is None else _boundary(text, from_number, from_rest, size)
    end = size if to_number is None else _boundary(text, to_number, to_rest, size)
    if begin >= end and size > 0:
        raise _bad_slice(text, f"no records of {size}")
    return Span(begin, end - begin, size)


def _boundary(text: str, number: str, rest: str | None, size: int) -> int:
    if rest is None:
        boundary = int(number)
    else:
        percent = float(number + rest[:-1])
        if abs(percent) > 100:
            raise _bad_slice(text, "a percentage lies outside -100%..100%")
        boundary = share_of(percent, size)
    if abs(boundary) > size:
        raise _bad_slice(text, f"there are only {size} records")
    return boundary + size if boundary < 0 else boundary


def share_of(percent: float, size: int) -> int:
    """A percentage of so many records, as TFDS rounds it (``splits._pct_to_abs_closest``)."""
    return round(percent * size / 100.0)


def _bad_slice(text: str, reason: str) -> ValueError:
    return ValueError(
        f"slice {text!r}: {reason}; slices look like '[:80%]', '[10%:20%]', '[100:200]', '[-5%:]'"
    )


# ---- splits ----


def fractions_to_counts(fractions: Sequence[float], size: int) -> list[int]:
    """How many of ``size`` records each part of a split has.

    The boundaries between parts are rounded to the nearest record, halves up, so that counts sum
    to ``size`` and each differs from its fraction by less than one record.

    Args:
        fractions: Of each part. They are taken as they are written in decimal, so 0.7 is 7/10, and
            what rounding has left them short of 1 is dealt to all of them alike.
        size: How many records there are.

    Raises:
        ValueError: there are no fractions, one is not a positive number, or they do not sum to 1
            within 1e-6.
    """
    numbers = [float(fraction) for fraction in fractions]
    for number in numbers:
        if not (number > 0 and math.isfinite(number)):
            raise ValueError(f"fractions must be positive numbers, not {number}")
    if abs(math.fsum(numbers) - 1) > 1e-6:
        total = math.fsum(numbers)
        raise ValueError(f"fractions must sum to 1, not to {total:.9g} as {numbers} do")
    exact = [Fraction(repr(number)) for number in numbers]
    whole = sum(exact)
    bounds = [0]
    below = Fraction(0)
    for fraction in exact:
        below += fraction
        bounds.append(math.floor(below / whole * size + Fraction(1, 2)))
    return [end - begin for begin, end in itertools.pairwise(bounds)]


def split_indexed(
    indexes: Sequence[RecordIndex],
    selection: Selection | None,
    fractions: Sequence[float],
    seed: int,
) -> list[Subset]:
    """:func:`split_records` of indexed files.

    Files count by name and content, wherever they are. Only files of one name and content, or of
    one name and size where the content is not known, are ranked by their paths.

    Raises:
        ValueError: ``fractions`` are none, or the selection is not of these files.
    """
    names = [
        (os.path.basename(index.data_path), f"{index.identity}{index.data_path}")
        for index in indexes
    ]
    return split_records([len(index) for index in indexes], names, selection, fractions, seed)


def split_records(
    file_records: Sequence[int],
    file_names: Sequence[tuple[str, str]],
    selection: Selection | None,
    fractions: Sequence[float],
    seed: int,
) -> list[Subset]:
    """A random split by records: disjoint parts that together are all records selected.

    Every split into parts of these sizes is equally likely. In which part a record is depends on
    the seed, the fractions, the record's place in its file, and on what the files are: not on the
    order in which they are listed.

    Args:
        file_records: How many records each file has, in the order listed.
        file_names: Of each file what it is ranked by: its base name, and a fingerprint of its
            content.
        selection: Only these records are split; None: all.
        fractions: Of each part; see :func:`fractions_to_counts`.
        seed: Any integer.

    Returns:
        One subset of all the files' records, numbered as the files are listed, for each fraction.

    Raises:
        ValueError: ``fractions`` are none; or files, names and selection do not belong together.
    """
    if len(file_records) != len(file_names):
        raise ValueError(f"{len(file_names)} names do not belong to {len(file_records)} files")
    total = sum(file_records)
    chosen = _all_if_none(selection, total)
    size = len(chosen)
    bounds = np.cumsum(fractions_to_counts(fractions, size))
    begins = chosen.positions_of(np.cumsum([0, *file_records], dtype=np.int64))
    shifts = _canonical_begins(begins[1:] - begins[:-1], file_names) - begins[:-1]
    key = _key(f"split:{int(seed)}:{size}")

    def parts_between(begin: int, end: int) -> Numbers:
        first, last = np.searchsorted(begins, [begin, end - 1], side="right").tolist()
        edges = np.clip(begins[first - 1 : last + 1], begin, end)
        shift = np.repeat(shifts[first - 1 : last], edges[1:] - edges[:-1])
        canonical = np.arange(begin, end) + shift
        return np.searchsorted(bounds, _core.permute(canonical, size, key), side="right")

    return _deal(chosen, len(bounds), parts_between)


def split_groups(
    keys: Sequence[bytes | None],
    selection: Selection | None,
    total: int,
    fractions: Sequence[float],
    seed: int,
) -> list[Subset]:
    """A random split by groups: records with the same key are in the same part.

    Groups are put in an order that depends on the seed and their keys alone, and the records are
    divided by the fractions; a group goes where the middle of its records falls. So in which part a
    group is depends on neither the order of records nor that of files.

    Args:
        keys: Of each record selected; None: it goes nowhere.
        selection: Only these records are split; None: all.
        total: How many records there are in all.
        fractions: Of each part; see :func:`fractions_to_counts`. Parts come as near to them as
            whole groups allow.
        seed: Any integer.

    Returns:
        One subset of all records for each fraction.

    Raises:
        ValueError: ``fractions`` are none; or keys and selection do not belong together.
    """
    chosen = _all_if_none(selection, total)
    if len(keys) != len(chosen):
        raise ValueError(f"{len(keys)} keys do not belong to {len(chosen)} records")
    sizes = Counter(keys)
    sizes.pop(None, None)
    salt = hashlib.blake2b(f"groups:{int(seed)}".encode(), digest_size=16).digest()

    def rank(key: bytes) -> tuple[bytes, bytes]:
        return hashlib.blake2b(key, key=salt, digest_size=16).digest(), key

    groups = sorted((key for key in sizes if key is not None), key=rank)
    ends = np.cumsum([sizes[key] for key in groups], dtype=np.int64)
    counts = fractions_to_counts(fractions, int(ends[-1]) if groups else 0)
    # Twice the middle, and twice the boundaries: all of them are whole numbers.
    middles = ends + np.concatenate(([0], ends))[:-1]
    parts = np.searchsorted(2 * np.cumsum(counts), middles, side="right").tolist()
    part_of: dict[bytes | None, int] = {None: -1, **dict(zip(groups, parts, strict=True))}
    part_at = np.fromiter(map(part_of.__getitem__, keys), np.int64, len(keys))
    return _deal(chosen, len(counts), lambda begin, end: part_at[begin:end])


# ---- what they share ----


def _all_if_none(selection: Selection | None, total: int) -> Selection:
    if selection is None:
        return Span(0, total, total)
    if selection.total != total:
        raise ValueError(f"a selection of {selection.total} records is not one of {total}")
    return selection


def _canonical_begins(
    sizes: npt.NDArray[np.int64], names: Sequence[tuple[str, str]]
) -> npt.NDArray[np.int64]:
    """Where the records of each file begin when files come in the order of their names.

    Files of the same name and content keep the order listed: which is which makes no difference.
    """
    ranked = sorted(range(len(names)), key=lambda file: names[file])
    begins = np.zeros(len(names), np.int64)
    begins[ranked] = np.cumsum(sizes[ranked]) - sizes[ranked]
    return begins


def _deal(
    chosen: Selection, num_parts: int, parts_between: Callable[[int, int], Numbers]
) -> list[Subset]:
    """Subsets for the parts that ``parts_between`` gives for positions ``begin..end-1``."""
    builders = [SubsetBuilder(chosen.total) for _ in range(num_parts)]
    for begin in range(0, chosen.total, CHUNK):
        end = min(chosen.total, begin + CHUNK)
        mask = chosen.mask(begin, end)
        first, last = chosen.positions_of(np.array([begin, end])).tolist()
        parts = parts_between(first, last) if first < last else np.empty(0, np.int64)
        for number, builder in enumerate(builders):
            taken = np.zeros(end - begin, np.bool_)
            taken[mask] = parts == number
            builder.append(taken)
    return [builder.finish() for builder in builders]


def _key(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
