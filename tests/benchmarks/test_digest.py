"""The digest that compares the records of benchmark peers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.epoch import check
from benchmarks.peers.base import Batch, HostBatch, Peer
from benchmarks.workloads import Column, Workload

WORKLOAD = Workload(
    "any",
    0,
    1,
    {
        "label": Column("int64"),
        "name": Column("string"),
        "tokens": Column("int64", None),
        "pixels": Column("raw", (2,)),
    },
    title="any",
)
Record = tuple[int, bytes, list[int], list[int]]
NUMBERS = st.integers(-(2**63), 2**63 - 1)
RECORD = st.tuples(
    NUMBERS,
    st.binary(max_size=4),
    st.lists(NUMBERS, max_size=4),
    st.lists(st.integers(0, 255), min_size=2, max_size=2),
)


class InBatches(Peer):
    def __init__(self, records: list[Record], size: int, padded: bool) -> None:
        super().__init__("any")
        self._records = records
        self._size = size
        self._padded = padded

    def batches(self, workload: Workload, workers: int) -> Iterator[Batch]:
        for start in range(0, len(self._records), self._size):
            labels, names, tokens, pixels = zip(
                *self._records[start : start + self._size], strict=True
            )
            yield {
                "label": np.array(labels, np.int64),
                "name": list(names),
                "tokens": self._column(tokens),
                "pixels": np.array(pixels, np.uint8),
            }

    def _column(self, rows: tuple[list[int], ...]) -> tuple[Any, Any]:
        lengths = [len(row) for row in rows]
        if not self._padded:
            flat = [value for row in rows for value in row]
            return np.array(flat, np.int64), np.cumsum([0, *lengths])
        padded = np.zeros((len(rows), max(lengths)), np.int64)
        for row, values in zip(padded, rows, strict=True):
            row[: len(values)] = values
        return padded, np.array(lengths)

    def to_host(self, workload: Workload, batch: Batch) -> HostBatch:
        return dict(batch)


def digest_of(records: list[Record], size: int = 3, *, padded: bool = False) -> dict[str, Any]:
    return check(InBatches(records, size, padded), WORKLOAD, 0, "")


@given(data=st.data(), records=st.lists(RECORD, max_size=8), padded=st.booleans())
def test_digest_ignores_order_batches_and_padding(
    data: st.DataObject, records: list[Record], padded: bool
) -> None:
    moved = data.draw(st.permutations(records))
    size = data.draw(st.integers(1, 9))
    assert digest_of(moved, size, padded=padded) == digest_of(records)


@given(one=st.lists(RECORD, max_size=4), other=st.lists(RECORD, max_size=4))
def test_different_records_have_different_digests(one: list[Record], other: list[Record]) -> None:
    assert (digest_of(one) == digest_of(other)) == (sorted(one) == sorted(other))


def test_wrong_dtype_is_an_error() -> None:
    class Narrow(InBatches):
        def to_host(self, workload: Workload, batch: Batch) -> HostBatch:
            return {**batch, "label": batch["label"].astype(np.int32)}

    with pytest.raises(AssertionError, match="label is of int32"):
        check(Narrow([(1, b"", [], [0, 0])], 1, False), WORKLOAD, 0, "")
