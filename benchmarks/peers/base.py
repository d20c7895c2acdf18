"""Interface of a peer. Only the measured peer's module is imported with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from benchmarks.workloads import Workload

# Columns by name, in the types of the library.
Batch = Mapping[str, Any]
# Columns for the comparison: arrays [B, *shape] of the column's dtype, (values, row splits) for
# columns of any length, lists of bytes.
HostBatch = dict[str, Any]


class Peer:
    """A library, or one way to use it.

    Attributes:
        name: Name in the tables.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def supports(self, workload: Workload, workers: int) -> str | None:
        """Return why the peer cannot be measured on a workload, or None if it can."""
        raise NotImplementedError

    def prepare(self, workload: Workload) -> None:
        """Create the files that the peer needs: an index, or a copy in its own format."""

    def batches(self, workload: Workload, workers: int) -> Iterable[Batch]:
        """Return an iterable over batches. Each ``iter()`` is an epoch with every record once."""
        raise NotImplementedError

    def to_host(self, workload: Workload, batch: Batch) -> HostBatch:
        """Convert a batch for the comparison. Conversions are not timed."""
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
    """Iterable that calls a function to start each iteration."""

    def __init__(self, start: Callable[[], Iterator[Batch]]) -> None:
        self._start = start

    def __iter__(self) -> Iterator[Batch]:
        return self._start()
