"""Parts of a dataset: slices given as text, and random splits by records or by groups."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from .. import _core
from .._records.index import RecordIndex
from .._storage.digest import digest, digest_number
from ..checks import counted
from .selection import CHUNK, Numbers, Selection, Span, Subset, SubsetBuilder

_BOUNDARY = r"(-?[0-9]+(?:_[0-9]+)*)((?:\.[0-9]+)?%)?"
_SLICE = re.compile(rf"\[(?:{_BOUNDARY})?:(?:{_BOUNDARY})?\]")

# ---- slices ----


def parse_slice(text: str, size: int) -> Span:
    """Return the records of a slice such as ``"[:80%]"``, ``"[-5%:]"`` or ``"[100:200]"``.

    The rules are those of ``split="train[...]"`` in TensorFlow Datasets
    (``tfds.core.ReadInstruction`` with its default ``rounding="closest"``; ``core/splits.py``,
    version 4.9). A percentage, which may have decimals, is rounded to the nearest number of
    records, ties to even. Negative values count from the end. A boundary outside of the dataset and
    a slice without records are errors. A percentage that rounds to 0 is boundary 0, even if it is
    negative: ``"[-5%:]"`` of 4 records selects all of them.

    Two rules differ: ``"[:]"`` and ``""`` select all records, and one slice cannot mix a percentage
    and a number other than 0, both of which TFDS would take for percentages.

    Args:
        text: The slice.
        size: Number of records.

    Raises:
        ValueError: If the text is not a slice, or not a slice of that many records.
    """
    if not text:
        return Span(0, size, size)
    found = _SLICE.fullmatch(text)
    if found is None:
        if text[0].isalpha():
            reason = "to read one split, pass the pattern of its files, such as 'data/train-*'"
            raise _bad_slice(text, reason)
        raise _bad_slice(text, "it cannot be parsed")
    from_number, from_rest, to_number, to_rest = found.groups()
    units = {
        rest is not None
        for number, rest in ((from_number, from_rest), (to_number, to_rest))
        if number is not None and (rest is not None or int(number) != 0)
    }
    if len(units) == 2:
        raise _bad_slice(text, "it mixes a percentage and a number")
    begin = 0 if from_number is None else _boundary(text, from_number, from_rest, size)
    end = size if to_number is None else _boundary(text, to_number, to_rest, size)
    if begin >= end and size > 0:
        raise _bad_slice(text, f"it selects none of {counted(size, 'record')}")
    return Span(begin, end - begin, size)


def _boundary(text: str, number: str, rest: str | None, size: int) -> int:
    if rest is None:
        boundary = int(number)
    else:
        percent = float(number + rest[:-1])
        if abs(percent) > 100:
            raise _bad_slice(text, "a percentage lies outside of -100%..100%")
        boundary = percent_of(percent, size)
    if abs(boundary) > size:
        raise _bad_slice(text, f"there are only {counted(size, 'record')}")
    return boundary + size if boundary < 0 else boundary


def percent_of(percent: float, size: int) -> int:
    """Return a percentage of records, rounded as in TFDS (``splits._pct_to_abs_closest``)."""
    return round(percent * size / 100.0)


def _bad_slice(text: str, reason: str) -> ValueError:
    return ValueError(
        f"slice {text!r} is invalid: {reason}; valid slices look like '[:80%]', '[10%:20%]', "
        "'[100:200]', '[-5%:]'"
    )


# ---- splits ----


def fractions_to_counts(fractions: Sequence[float], size: int) -> list[int]:
    """Return the number of records in each part of a split.

    The boundaries between parts are rounded to the nearest record, halves up. So the counts sum to
    ``size``, and each differs from its fraction by less than one record.

    Args:
        fractions: Fraction of each part; or percentages or other weights, all at least 1. Decimals
            are exact: 0.7 means 7/10. A sum slightly below 1 is scaled to 1.
        size: Number of records.

    Raises:
        ValueError: If there are no fractions, one is not a positive number, or they neither sum to
            1 or 100, within 1e-6, nor are all at least 1.
    """
    numbers = [float(fraction) for fraction in fractions]
    for number in numbers:
        if not (number > 0 and math.isfinite(number)):
            raise ValueError(f"fractions must be positive numbers, got {number}")
    total = math.fsum(numbers)
    is_whole = min(abs(total - 1), abs(total - 100) / 100) <= 1e-6
    if not numbers or not (is_whole or min(numbers) >= 1):
        raise ValueError(
            "fractions must sum to 1, or be percentages or weights of at least 1, got "
            f"{numbers} with the sum {total:.9g}"
        )
    from fractions import Fraction  # noqa: PLC0415  # slow to import, rarely needed

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
    """Split indexed files at random; see :func:`split_records`.

    Files are identified by name and content, wherever they are. Only files of the same name and
    content, or of the same name and size if the content is not known yet, are ordered by path.

    Raises:
        ValueError: If ``fractions`` are invalid, or the selection does not belong to these files.
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
    """Split records at random into disjoint parts that together hold all selected records.

    Every split into parts of these sizes is equally likely. The part of a record depends on the
    seed, the fractions, the record's number in its file and the files' names and contents. It does
    not depend on the order in which the files are listed.

    Args:
        file_records: Number of records in each file, in the order listed.
        file_names: Base name and content fingerprint of each file, which define the order of files.
        selection: Records to split; None for all.
        fractions: Fraction of each part; see :func:`fractions_to_counts`.
        seed: Any integer.

    Returns:
        A subset of all records, numbered as the files are listed, for each fraction.

    Raises:
        ValueError: If ``fractions`` are invalid, or the selection is one of other records.
    """
    total = sum(file_records)
    chosen = _all_if_none(selection, total)
    size = len(chosen)
    bounds = np.cumsum(fractions_to_counts(fractions, size))
    begins = chosen.positions_of(np.cumsum([0, *file_records], dtype=np.int64))
    shifts = _canonical_begins(begins[1:] - begins[:-1], file_names) - begins[:-1]
    key = digest_number(f"split:{int(seed)}:{size}")

    def parts_between(begin: int, end: int) -> Numbers:
        first, last = np.searchsorted(begins, [begin, end - 1], side="right").tolist()
        edges = np.clip(begins[first - 1 : last + 1], begin, end)
        shift = np.repeat(shifts[first - 1 : last], edges[1:] - edges[:-1])
        canonical = np.arange(begin, end) + shift
        return np.searchsorted(bounds, _core.permute(canonical, size, key), side="right")

    return _divide(chosen, len(bounds), parts_between)


def split_groups(
    keys: Sequence[bytes | None],
    selection: Selection | None,
    total: int,
    fractions: Sequence[float],
    seed: int,
) -> list[Subset]:
    """Split groups of records at random: records with the same key are in the same part.

    Groups are sorted by a hash of the seed and their key, and the records are divided by the
    fractions. A group goes to the part in which the middle of its records falls. So the part of a
    group depends neither on the order of records nor on that of files.

    Args:
        keys: Key of each selected record; None for a record that belongs to no part.
        selection: Records to split; None for all.
        total: Number of records in the dataset.
        fractions: Fraction of each part; see :func:`fractions_to_counts`. Parts match them as
            closely as whole groups allow.
        seed: Any integer.

    Returns:
        A subset of all records for each fraction.

    Raises:
        ValueError: If ``fractions`` are invalid, or the selection is one of other records.
    """
    chosen = _all_if_none(selection, total)
    sizes = Counter(keys)
    sizes.pop(None, None)
    salt = digest(f"groups:{int(seed)}", size=16)

    def rank(key: bytes) -> tuple[bytes, bytes]:
        return hashlib.blake2b(key, key=salt, digest_size=16).digest(), key

    groups = sorted((key for key in sizes if key is not None), key=rank)
    ends = np.cumsum([sizes[key] for key in groups], dtype=np.int64)
    counts = fractions_to_counts(fractions, int(ends[-1]) if groups else 0)
    # Twice the middle and twice the boundaries, which are integers.
    middles = ends + np.concatenate(([0], ends))[:-1]
    parts = np.searchsorted(2 * np.cumsum(counts), middles, side="right").tolist()
    part_of: dict[bytes | None, int] = {None: -1, **dict(zip(groups, parts, strict=True))}
    part_at = np.fromiter(map(part_of.__getitem__, keys), np.int64, len(keys))
    return _divide(chosen, len(counts), lambda begin, end: part_at[begin:end])


# ---- shared ----


def _all_if_none(selection: Selection | None, total: int) -> Selection:
    if selection is None:
        return Span(0, total, total)
    if selection.total != total:
        raise ValueError(f"selection must be one of {total} records, got one of {selection.total}")
    return selection


def _canonical_begins(
    sizes: npt.NDArray[np.int64], names: Sequence[tuple[str, str]]
) -> npt.NDArray[np.int64]:
    """Return the first record number of each file if files are sorted by their names.

    Files with equal names and contents keep the order listed. They are interchangeable.
    """
    ranked = sorted(range(len(names)), key=lambda file: names[file])
    begins = np.zeros(len(names), np.int64)
    begins[ranked] = np.cumsum(sizes[ranked]) - sizes[ranked]
    return begins


def _divide(
    chosen: Selection, num_parts: int, parts_between: Callable[[int, int], Numbers]
) -> list[Subset]:
    """Return a subset for each part.

    Args:
        chosen: Records to divide.
        num_parts: Number of parts.
        parts_between: Returns the part of each selected record at positions ``begin..end-1``; int64
            ``[end - begin]``, -1 for none.
    """
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
