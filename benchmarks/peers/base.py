"""What a peer is asked for. Nothing of this folder but the measured peer is imported with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from benchmarks.workloads import Workload

# Columns by name, as the library gives them.
Batch = Mapping[str, Any]
# The same for comparison: arrays [B, *shape] of the column's dtype, (values, row splits) for
# columns of any length, lists of bytes.
HostBatch = dict[str, Any]


class Peer:
    """A library, or one way to use it.

    Attributes:
        name: In the tables.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def supports(self, workload: Workload, workers: int) -> str | None:
        """None, or why it cannot be measured on this."""
        raise NotImplementedError

    def prepare(self, workload: Workload) -> None:
        """Makes what it needs beside the data files: an index, or a copy in its own format."""

    def batches(self, workload: Workload, workers: int) -> Iterable[Batch]:
        """All records, in any order, each once; every ``iter()`` of it is an epoch."""
        raise NotImplementedError

    def to_host(self, workload: Workload, batch: Batch) -> HostBatch:
        """A batch, for comparison; never while the clock runs."""
        del workload
        return {
            name: tuple(part.numpy() for part in column)
            if isinstance(column, tuple)
            else column
            if isinstance(column, list)
            else column.numpy()
            for name, column in batch.items()
        }


class Epochs:
    """Makes an iterable, each time anew, of a function that gives an iterator."""

    def __init__(self, start: Callable[[], Iterator[Batch]]) -> None:
        self._start = start

    def __iter__(self) -> Iterator[Batch]:
        return self._start()
