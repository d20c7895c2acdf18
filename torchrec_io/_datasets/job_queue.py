"""The queue of batches that are to be loaded, planned ahead of the threads that load them."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .._records.reader import PrefetchLimits
from ..errors import TorchRecIOError

# Jobs that are planned ahead of those that threads have started.
_MOST_PLANNED = 4096
# Jobs are planned ahead for this many times the bytes that were taken: for few at first, because a
# program may want few.
_GROWTH = 8


class Chunk(Protocol):
    """Some records that are still to be loaded."""

    @property
    def numbers(self) -> npt.NDArray[Any]:
        """Identity of each record for its reader; ``[n]``."""

    def __len__(self) -> int: ...

    def split(self, count: int) -> tuple[Any, Any]:
        """Return the first ``count`` records, and the rest of the records."""

    @classmethod
    def joined(cls, chunks: Sequence[Any]) -> Any:
        """Return the records of several chunks as one."""

    def plan(self, reader: Any) -> Any:
        """Return a reader's plan to fetch the records."""


@dataclass(frozen=True, slots=True)
class NumberedChunk:
    """Records of indexed files, by their numbers. A :class:`Chunk`.

    Attributes:
        numbers: int64 ``[n]``.
    """

    numbers: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.numbers)

    def split(self, count: int) -> tuple[NumberedChunk, NumberedChunk]:
        return NumberedChunk(self.numbers[:count]), NumberedChunk(self.numbers[count:])

    @classmethod
    def joined(cls, chunks: Sequence[NumberedChunk]) -> NumberedChunk:
        return cls(np.concatenate([chunk.numbers for chunk in chunks]))

    def plan(self, reader: Any) -> Any:
        return reader.plan(self.numbers)


@dataclass
class LoadJob:
    """A batch that is to be loaded.

    Attributes:
        epoch: Epoch of the batch. No batch has records of two epochs.
        chunk: Records of the batch.
        plan: The reader's plan; None if there is an error.
        error: Reason why the batch cannot be loaded. It is raised when the batch is requested, and
            kept until then because the job may be put back.
    """

    epoch: int
    chunk: Any
    plan: Any
    error: Exception | None = None

    @property
    def buffer_bytes(self) -> int:
        """Approximate number of bytes to read."""
        return 0 if self.plan is None else int(self.plan.buffer_bytes)

    @property
    def stored_bytes(self) -> int:
        """Number of bytes of the records, as stored."""
        return 0 if self.plan is None else int(self.plan.stored_bytes(0, len(self.chunk.numbers)))


class JobQueue:
    """Load jobs in their order. Records can be taken from later jobs to replace lost ones.

    Args:
        batches: Epoch and records of each batch.
        reader: Reader that plans the jobs.
        batch_size: Number of records in a full batch.
    """

    def __init__(self, batches: Iterable[tuple[int, Chunk]], reader: Any, batch_size: int) -> None:
        self._batches = iter(batches)
        self._reader = reader
        self._batch_size = batch_size
        self._reads_ahead = reader.prefetch_limits is not None
        self._taken_bytes = 0
        self._returned: deque[tuple[int, Chunk]] = deque()  # come before the other batches
        self._planned: deque[LoadJob] = deque()  # come before those
        self._planned_bytes = 0  # of these
        self._failure: Exception | None = None  # of `batches`; raised after all jobs

    def peek(self) -> LoadJob | None:
        """Return the next job without removing it; None at the end."""
        if self._reads_ahead or not self._planned:
            self._plan_more()
        return self._planned[0] if self._planned else None

    def pop(self) -> LoadJob | None:
        """Remove and return the next job; None at the end."""
        job = self.peek()
        if job is not None:
            self._planned.popleft()
            self._planned_bytes -= job.buffer_bytes
            self._taken_bytes += job.buffer_bytes
        return job

    def put_back(self, jobs: Iterable[LoadJob]) -> None:
        """Put jobs before all others."""
        following = [*self._planned]
        self._planned.clear()  # they are planned again
        self._planned_bytes = 0
        for job in reversed([*jobs, *following]):
            if job.error is not None and len(job.chunk) == 0:
                self._failure = job.error
            else:  # a chunk without records may have damage to report
                self._returned.appendleft((job.epoch, job.chunk))

    def _plan_more(self) -> None:
        """Plan the next job; and where the reader reads ahead, further ones before they are few."""
        if self._reads_ahead:
            self._plan_ahead(self._reader.prefetch_limits)
        elif (job := self._make()) is not None:
            self._add_planned(job)

    def _add_planned(self, job: LoadJob) -> None:
        self._planned.append(job)
        self._planned_bytes += job.buffer_bytes

    def _plan_ahead(self, ahead: PrefetchLimits) -> None:
        most = min(ahead.most_bytes, max(ahead.first_bytes, _GROWTH * self._taken_bytes))
        # Half of it at a time: neighbors among many records are read together, while the other half
        # is under way.
        is_enough = self._planned_bytes >= most // 2
        if self._planned and (is_enough or len(self._planned) * 2 >= _MOST_PLANNED):
            return
        new: list[LoadJob] = []
        while len(self._planned) < _MOST_PLANNED and (job := self._make()) is not None:
            self._add_planned(job)
            new.append(job)
            if job.error is not None or self._planned_bytes >= most:
                break
        plans = [job.plan for job in new if job.plan is not None]
        if plans:
            # Errors are raised when a batch itself is read. That needs less memory, and no thread.
            with contextlib.suppress(TorchRecIOError, OSError, MemoryError, RuntimeError):
                self._reader.prefetch(plans)

    def take(self, epoch: int, count: int) -> Chunk | None:
        """Remove up to ``count`` records of an epoch from the next jobs; None if there are none."""
        self.put_back([])
        return self._take_pulled(epoch, count)

    def _take_pulled(self, epoch: int, count: int) -> Chunk | None:
        """Remove up to ``count`` records of an epoch from the batches after the planned ones."""
        taken: list[Chunk] = []
        while count > 0 and (batch := self._pull()) is not None:
            if batch[0] != epoch:
                self._returned.appendleft(batch)
                break
            chunk = batch[1]
            if len(chunk) > count:
                chunk, rest = chunk.split(count)
                self._returned.appendleft((epoch, rest))
            taken.append(chunk)
            count -= len(chunk)
        return _joined(taken) if taken else None

    def _make(self) -> LoadJob | None:
        batch = self._pull()
        if batch is None:
            failure, self._failure = self._failure, None
            if failure is None:
                return None
            return LoadJob(0, NumberedChunk(np.empty(0, np.int64)), None, failure)
        epoch, chunk = batch
        chunk = self._filled(epoch, chunk)
        try:
            return LoadJob(epoch, chunk, chunk.plan(self._reader))
        except Exception as error:  # noqa: BLE001  # raised when this batch is asked for
            return LoadJob(epoch, chunk, None, error)

    def _pull(self) -> tuple[int, Chunk] | None:
        if self._returned:
            return self._returned.popleft()
        try:
            return next(self._batches, None)
        except Exception as error:  # noqa: BLE001  # raised when the next batch is asked for
            self._failure = error
            return None

    def _filled(self, epoch: int, chunk: Chunk) -> Chunk:
        """Return a batch from which records were taken, filled up from the next batches."""
        missing = self._batch_size - len(chunk)
        more = self._take_pulled(epoch, missing) if missing > 0 else None
        return chunk if more is None else _joined([chunk, more])


def _joined(chunks: Sequence[Chunk]) -> Chunk:
    if len(chunks) == 1:
        return chunks[0]
    joined: Chunk = type(chunks[0]).joined(chunks)
    return joined
