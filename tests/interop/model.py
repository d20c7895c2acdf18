"""Model of the records that only this package refuses; see docs/differences.md.

The model uses the values of a record and no parser. Each reason has the name of its row in the
table of the docs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.interop.generate import Record, SequenceRecord, Spec, Values, index_keys

OUT_OF_SIZE = "an index of a SparseFeature outside of its size"
UNEQUAL_COUNTS = "indices and values of a SparseFeature that do not pair up in a record"
UNALIGNED = "partitions of a RaggedFeature that do not tally with the values of their record"
SPLITS_START = "RowSplits whose first value is not 0"
NO_SPLIT = "a number of a partition that is no row split of any array"
UNEQUAL_STEPS = "values and partitions of a RaggedFeature with different numbers of steps"

EMPTY = Values(None, [])
MOST = {"int32": 2**31, "int64": 2**40 + 1}


def ints(record: Record, key: str) -> list[int]:
    """Return the values of an index or a partition. Other kinds are rejected elsewhere."""
    values = record.get(key, EMPTY)
    return values.values if values.kind == "int64" else []


# ---- SparseFeature ----


def sparse_reasons(spec: Spec, record: Record) -> Iterator[str]:
    """Return the reasons to reject a record's values of a SparseFeature."""
    keys, sizes = index_keys(spec)
    count = len(record.get(spec["value_key"], EMPTY).values)
    for key, size in zip(keys, sizes, strict=True):
        if len(ints(record, key)) != count:
            yield UNEQUAL_COUNTS
        if any(not 0 <= index < size for index in ints(record, key)):
            yield OUT_OF_SIZE


def has_ties(spec: Spec, records: list[Record]) -> bool:
    """Return whether TensorFlow may return a SparseFeature's values in any order.

    Its sort is stable only for up to 16 values in a batch.
    """
    if spec["type"] != "Sparse" or spec.get("already_sorted"):
        return False
    keys, _ = index_keys(spec)
    places = Counter(
        (number, *index)
        for number, record in enumerate(records)
        for index in zip(*(ints(record, key) for key in keys), strict=False)
    )
    return places.total() > 16 and max(places.values()) > 1


def sorted_entries(result: dict[str, Any]) -> dict[str, Any]:
    """Sort the values of equal indices of a sparse result."""
    entries = sorted(zip(result["indices"], result["values"], strict=True))
    return {
        **result,
        "indices": [index for index, _ in entries],
        "values": [value for _, value in entries],
    }


# ---- RaggedFeature ----


def rows_of(kind: str, stored: list[int], count: int) -> int | str:
    """Return the number of rows of a partition of ``count`` values, or the reason to reject it."""
    if kind == "ValueRowIds":
        fits = len(stored) == count and min(stored, default=0) >= 0
        return max(stored, default=-1) + 1 if fits else UNALIGNED
    first, last = {
        "RowLengths": (0, sum(stored)),
        "RowSplits": ((stored or [0])[0], (stored or [0])[-1]),
        "RowStarts": ((stored or [0])[0], count if stored else 0),
        "RowLimits": (0, (stored or [0])[-1]),
    }[kind]
    if first != 0:
        return SPLITS_START if kind == "RowSplits" else UNALIGNED
    rows = len(stored) - 1 if kind == "RowSplits" and stored else len(stored)
    return rows if last == count else UNALIGNED


def ragged_reasons(name: str, spec: Spec, record: Record) -> Iterator[str]:
    """Return the reasons to reject a record's, or a step's, values of a RaggedFeature."""
    count = len(record.get(spec.get("value_key") or name, EMPTY).values)
    for kind, argument in reversed(spec.get("partitions", [])):
        if kind == "UniformRowLength":
            if count % argument:
                yield UNALIGNED
                return
            count //= argument
            continue
        stored = ints(record, argument)
        if any(abs(number) >= MOST[spec.get("row_splits_dtype", "int32")] for number in stored):
            yield NO_SPLIT
            return
        rows = rows_of(kind, stored, count)
        if isinstance(rows, str):
            yield rows
            return
        count = rows


def reasons(spec: Spec, records: list[Record]) -> set[str]:
    """Return the reasons to reject Examples, or contexts, that TensorFlow may accept."""
    found: set[str] = set()
    for name, feature in spec.items():
        for record in records:
            if feature["type"] == "Sparse":
                found.update(sparse_reasons(feature, record))
            elif feature["type"] == "Ragged":
                found.update(ragged_reasons(name, feature, record))
    return found


def list_reasons(spec: Spec, records: list[SequenceRecord]) -> set[str]:
    """Return the reasons to reject feature lists that TensorFlow may accept."""
    found: set[str] = set()
    for name, feature in spec.items():
        if feature["type"] != "Ragged":
            continue
        keys = [key for _, key in feature.get("partitions", []) if isinstance(key, str)]
        keys.append(feature.get("value_key") or name)
        for record in records:
            lists = {key: record.lists.get(key, []) for key in keys}
            if len({len(steps) for steps in lists.values()}) > 1:
                found.add(UNEQUAL_STEPS)
                continue
            for step in range(len(lists[keys[-1]])):
                parts = {key: steps[step] for key, steps in lists.items()}
                found.update(ragged_reasons(name, feature, parts))
    return found


def sequence_reasons(context: Spec, sequence: Spec, records: list[SequenceRecord]) -> set[str]:
    """Return the reasons to reject SequenceExamples that TensorFlow may accept."""
    found = reasons(context, [record.context for record in records])
    return found | list_reasons(sequence, records)


# ---- values that TensorFlow loses ----


def has_backward_ids(spec: Spec, parts: list[Record]) -> bool:
    """Return whether the last row id of a record or step is not the greatest.

    TensorFlow derives the number of rows from the last one, and loses the values of later rows.
    """
    for kind, argument in spec.get("partitions", []):
        if kind == "ValueRowIds":
            for part in parts:
                ids = ints(part, argument)
                if ids and ids[-1] != max(ids):
                    return True
    return False


def steps_in(records: list[SequenceRecord]) -> list[Record]:
    """Yield the steps of the lists of records. Shorter lists are missing in later steps."""
    return [
        {key: steps[number] for key, steps in record.lists.items() if number < len(steps)}
        for record in records
        for number in range(max(map(len, record.lists.values()), default=0))
    ]


# ---- records that only TensorFlow rejects ----


def with_kinds(record: SequenceRecord) -> SequenceRecord:
    """Remove Features without a kind from the context, as TensorFlow requires."""
    context = {key: values for key, values in record.context.items() if values.kind is not None}
    return replace(record, context=context)


def has_empty_splits(spec: Spec, record: Record, with_validate: bool = True) -> bool:
    """Return whether RowSplits, with validate or at all, are missing or empty: no rows here."""
    return any(
        kind == "RowSplits" and not ints(record, argument)
        for feature in spec.values()
        if feature.get("validate") or not with_validate
        for kind, argument in feature.get("partitions", [])
    )
