"""Statistics of loading: numbers of records, batches and bytes, and the time of each step."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from operator import length_hint
from time import monotonic_ns
from typing import Any

import numpy as np
import torch
from torch.utils.data import get_worker_info

from .. import _core
from .._order.selection import Numbers
from ..timing.steps import active_profiler, profiler_range, range_name

# The numbers of LoadingCounters: those that the native core counts, of which all but three are
# nanoseconds; errors skipped, and records repeated; nanoseconds of the processor in the loop's
# thread; and the time at which the first item was asked for.
COUNTED = (*(counter.name for counter in _core.Counter), "skipped", "repeated", "consumer")
_COUNTS = {"records", "bytes", "batches", "skipped", "repeated"}
_BEGAN = len(COUNTED)
COUNTER_NUMBERS = _BEGAN + 1

_NO_SOURCES = torch.zeros(0, dtype=torch.int64)

_NANO = 1e-9
WAITING_RANGE = range_name(_core.Counter.waiting_for_data)


@dataclasses.dataclass(frozen=True)
class LoadingStats:
    """Statistics of loading: numbers of records, batches and bytes, and the time of each step.

    :meth:`TFRecordDataset.stats` and the ``stats`` method of a loader return it. All times are in
    seconds. The times of the steps are summed over all threads and workers that load, so they may
    exceed ``seconds``. A step does not include the steps that it contains. docs/statistics.md
    explains how to use them.

    Attributes:
        records: Number of records that were yielded.
        bytes: Number of bytes of the records that were read for them, as stored but decompressed.
            Lost records are included.
        batches: Number of batches that were yielded; 0 for samples.
        skipped: Number of errors that were skipped; see ``on_error``.
        repeated: Number of records that were repeated in place of lost ones.
        seconds: Time since the previous call. For the first call, time since the first batch or
            sample was asked for.
        reading: Time to read files and decompress them, and to wait for storage.
        checking: Time to verify checksums.
        parsing: Time to parse records into columns.
        decoding: Time to decode images, other values that Python decodes, and records with a
            function.
        transform: Time of the ``transform``.
        waiting_for_consumer: Time in which loading threads or workers had nothing to do because
            enough was loaded ahead.
        waiting_for_data: Time that the training loop waited for its next batch or sample.
        copying: Time that the training loop took to copy batches to the device. On CUDA, copies run
            in the background, and this is the time to start them.
        consumer: Processor time that the thread of the training loop spent on its batches, in
            seconds. 0 for samples and for the statistics of a dataset.
        sources: Number of records (or packed rows) that were yielded from each dataset of a
            mixture; those of samples are counted when a block of them was used up. Empty for other
            datasets.
    """

    records: int = 0
    bytes: int = 0
    batches: int = 0
    skipped: int = 0
    repeated: int = 0
    seconds: float = 0.0
    reading: float = 0.0
    checking: float = 0.0
    parsing: float = 0.0
    decoding: float = 0.0
    transform: float = 0.0
    waiting_for_consumer: float = 0.0
    waiting_for_data: float = 0.0
    copying: float = 0.0
    consumer: float = 0.0
    sources: tuple[int, ...] = ()

    @property
    def records_per_second(self) -> float:
        """Number of records per second; 0 if no time has passed."""
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def consumer_share(self) -> float:
        """``consumer`` relative to the time of all steps of loading; 0 if there was none.

        With a share of 5 %, the thread of the training loop limits loading to 20 threads.
        """
        steps = self.reading + self.checking + self.parsing + self.decoding + self.transform
        return self.consumer / (self.consumer + steps) if self.consumer else 0.0

    def as_dict(self) -> dict[str, float]:
        """Return all numbers by name, with ``records_per_second`` and the share, to log them.

        Those of ``sources`` are named ``source_0``, ``source_1`` and so on.
        """
        numbers = dataclasses.asdict(self)
        sources = numbers.pop("sources")
        return {
            **numbers,
            **{f"source_{source}": count for source, count in enumerate(sources)},
            "records_per_second": self.records_per_second,
            "consumer_share": self.consumer_share,
        }


class LoadingCounters:
    """Numbers that all threads and workers add to while they load.

    Additions are atomic, so none is lost, and a process that is killed leaves valid numbers.

    Args:
        numbers: int64 ``[COUNTER_NUMBERS]`` in shared memory, initially zeros.
        sources: int64 ``[sources]`` in shared memory, initially zeros.
    """

    def __init__(self, numbers: torch.Tensor, sources: torch.Tensor = _NO_SOURCES) -> None:
        self._numbers, self._sources = numbers.numpy(), sources.numpy()

    def meter(self, *, counts_waiting: bool, counts_pauses: bool) -> _core.Meter:
        """Return a meter that adds to these numbers."""
        return _core.Meter(self._numbers, counts_waiting, counts_pauses)

    def add_records(self, count: int) -> None:
        """Add to the number of records."""
        _core.add_records(self._numbers, count)

    def add(self, name: str, count: int) -> None:
        """Add to one of the numbers that only Python counts."""
        _add(self._numbers, COUNTED.index(name), count)

    def add_sources(self, sources: Numbers) -> None:
        """Count records, given as the source of each; int64 ``[n]``."""
        for source, count in enumerate(np.bincount(sources).tolist()):
            if count:
                _add(self._sources, source, count)

    def __getitem__(self, name: str) -> int:
        """Return one of the numbers that were counted so far."""
        return int(self._numbers[COUNTED.index(name)])

    def begin(self) -> None:
        """Start the time when the first batch or sample is requested."""
        if not self._numbers[_BEGAN]:
            _core.compare_exchange(self._numbers[_BEGAN:], 0, monotonic_ns())

    @property
    def began(self) -> int | None:
        """Time at which the first batch or sample was asked for; None if that was not yet."""
        return int(self._numbers[_BEGAN]) or None

    def snapshot(self) -> list[int]:
        """Return the numbers of ``COUNTED``, then the number of records of each source."""
        counted: list[int] = self._numbers[:_BEGAN].tolist() + self._sources.tolist()
        return counted


def _add(numbers: Numbers, index: int, count: int) -> None:
    """Add to one of several numbers in shared memory."""
    number = numbers[index : index + 1]
    while True:
        before = int(number[0])
        if _core.compare_exchange(number, before, before + count):
            return


class StatsWindow:
    """Gives the statistics since its last call, to one who asks repeatedly.

    Several threads may ask. Each count is in exactly one of the results.

    Args:
        before: Numbers of a snapshot that do not count. By default all count.
    """

    def __init__(self, before: Sequence[int] = ()) -> None:
        self._before = [*before]
        self._since: int | None = None  # time of the last call
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def take(self, numbers: Sequence[int], began: int | None) -> LoadingStats:
        """Return the statistics since the last call.

        Args:
            numbers: Numbers so far; see :class:`StatsWindow`.
            began: Time from which the first call counts; None if nothing has begun.
        """
        with self._lock:
            now = monotonic_ns()
            since = began if self._since is None else self._since
            before = self._before or [0] * len(numbers)
            # A thread that read its numbers earlier may come later.
            after = [max(pair) for pair in zip(before, numbers, strict=True)]
            self._before, self._since = after, now
        return stats_between(before, after, 0 if since is None else now - since)


def stats_between(before: Sequence[int], after: Sequence[int], nanoseconds: int) -> LoadingStats:
    """Return the statistics of the time between two readings of the numbers."""
    counted = [late - early for early, late in zip(before, after, strict=True)]
    known: dict[str, Any] = dict(zip(COUNTED, counted, strict=False))
    for name in known.keys() - _COUNTS:
        known[name] *= _NANO
    sources = tuple(counted[len(COUNTED) :])
    return LoadingStats(**known, seconds=nanoseconds * _NANO, sources=sources)


class IterationMeter:
    """Measures one iteration of a process: what it yields, and the time of its steps.

    Between :meth:`resume` and :meth:`pause`, the consumer waits for an item.

    Args:
        counters: Counters to which everything is added.
        threads: Number of threads that load; 1 is the consuming thread.
        source_of: Returns the source of each record of a mixture.

    Attributes:
        counters: Counters to which everything is added.
        stored_bytes: Number of bytes of records that were read for the next item, as stored.
    """

    def __init__(
        self,
        counters: LoadingCounters,
        threads: int = 1,
        source_of: Callable[[Numbers], Numbers] | None = None,
    ) -> None:
        self.stored_bytes = 0
        self._source_of = source_of
        self.counters = counters
        in_worker = get_worker_info() is not None
        # In a worker, the consumer is not the training loop. A worker without threads of its own
        # has nothing to do until the next item is asked for.
        self._is_in_loop = not in_worker
        self._meter = counters.meter(
            counts_waiting=not in_worker, counts_pauses=in_worker and threads == 1
        )
        self._range: AbstractContextManager[Any] | None = None
        # Number of samples of a block, and the iterator that the consumer takes them with.
        self._block: tuple[int, Iterator[Any]] = (0, iter(()))
        # Meters of idle threads. They measure how long no other thread takes over.
        self._idle: list[_core.Meter] = []

    def resume(self) -> None:
        """Start to measure the wait for an item that the consumer requests."""
        if self._is_in_loop and active_profiler() is not None and not _core.Meter.is_running():
            self._range = profiler_range(WAITING_RANGE)
            self._range.__enter__()
        self._meter.start()

    def pause(self, records: int = 0, batches: int = 0) -> None:
        """Measure the wait for an item that the consumer gets, or for the end.

        Args:
            records: Number of records that it gets.
            batches: Number of batches that it gets.
        """
        self._meter.stop(records, self.stored_bytes, batches)
        self.stored_bytes = 0
        if self._range is not None:
            self._range.__exit__(None, None, None)
            self._range = None

    def count_sources(self, numbers: Numbers) -> None:
        """Count records that the consumer gets, by the dataset of a mixture that they are of.

        Args:
            numbers: Record numbers; int64 ``[n]``.
        """
        if self._source_of is not None:
            self.counters.add_sources(self._source_of(numbers))

    def begin(self) -> None:
        """Start to measure at the request of the first item."""
        self.counters.begin()
        self.resume()

    def end(self) -> None:
        """Note the end of the iteration, or an error."""
        if self._meter.has_started:
            self.pause()

    @contextmanager
    def samples(self, block: Sequence[Any], numbers: Numbers) -> Iterator[Iterator[Any]]:
        """Count the samples that the consumer takes from a block.

        Args:
            block: The samples.
            numbers: Their record numbers; int64 ``[n]``.

        Yields:
            An iterator over the block, from which each sample is taken.
        """
        self.pause()
        taken = iter(block)
        self._block = (len(block), taken)
        try:
            yield taken
        finally:
            records = self.samples_taken
            self._block = (0, iter(()))
            self.counters.add_records(records)
            self.count_sources(numbers[:records])
            self.resume()

    @property
    def samples_taken(self) -> int:
        """Number of samples of the current block that the consumer has taken."""
        count, rest = self._block
        return count - length_hint(rest)

    @contextmanager
    def in_thread(self) -> Iterator[None]:
        """Measure a run of batches in a thread that loads ahead."""
        try:
            meter = self._idle.pop()
        except IndexError:
            meter = self.counters.meter(counts_waiting=False, counts_pauses=True)
        meter.start()
        try:
            yield
        finally:
            meter.stop()
            self._idle.append(meter)
