"""A GPU that is not there: streams that run as late as a test likes, and memory used again at once.

What is put on a stream happens when :meth:`FakeGpu.run` gets to it. Memory that Python lets go of
is used for something else at once, unless PyTorch's rules (``record_stream``) keep it. Using such
memory, or data whose copy has not run, is an AssertionError at the place where it would go wrong.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch


class FakeGpu:
    """Two streams, in lockstep with nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.compute = FakeStream()
        self.copying: list[FakeStream] = []
        self.on: FakeStream = self.compute
        self.live = 0  # batches on the device that Python has
        self.pinned = 0  # how many were page-locked
        cuda = torch.cuda
        monkeypatch.setattr(cuda, "is_available", lambda: True)
        monkeypatch.setattr(cuda, "_is_in_bad_fork", lambda: False)
        monkeypatch.setattr(cuda, "device_count", lambda: 2)
        monkeypatch.setattr(cuda, "current_device", lambda: 1)
        monkeypatch.setattr(cuda, "Stream", self._new_stream)
        monkeypatch.setattr(cuda, "stream", self._switched)
        monkeypatch.setattr(cuda, "current_stream", self._current_stream)

    def _new_stream(self, device: torch.device) -> FakeStream:
        assert device == torch.device("cuda", 1)
        self.copying.append(FakeStream())
        return self.copying[-1]

    @contextlib.contextmanager
    def _switched(self, stream: FakeStream) -> Iterator[None]:
        before, self.on = self.on, stream
        yield
        self.on = before

    def _current_stream(self, device: torch.device) -> FakeStream:
        assert device == torch.device("cuda", 1)
        return self.on

    def run(self, stream: FakeStream, steps: int = 1 << 30) -> None:
        """Has a stream run some of what it has to do."""
        while steps and stream.todo and stream.todo[0]():
            stream.todo.popleft()
            steps -= 1

    def finish(self) -> None:
        """Has all streams run to their end."""
        for stream in (*self.copying, self.compute):
            self.run(stream)
        assert not any(stream.todo for stream in (*self.copying, self.compute))


class FakeStream:
    """What is to be done in order; each returns whether it could be."""

    def __init__(self) -> None:
        self.todo: deque[Callable[[], bool]] = deque()

    def record_event(self) -> FakeEvent:
        event = FakeEvent(self)
        self.todo.append(event.happen)
        return event

    def wait_event(self, event: FakeEvent) -> None:
        self.todo.append(lambda: event.happened)


class FakeEvent:
    def __init__(self, stream: FakeStream) -> None:
        self.happened = False
        self._stream = stream

    def happen(self) -> bool:
        self.happened = True
        return True

    def query(self) -> bool:
        return self.happened

    def synchronize(self) -> None:
        while not self.happened:
            assert self._stream.todo[0]()
            self._stream.todo.popleft()


class _Memory:
    """Of a batch; it outlives the batch in what streams have still to do."""

    def __init__(self, number: int | None = None) -> None:
        self.number = number
        self.used_again = False


class HostBatch:
    """A batch of one number, page-locked or not."""

    def __init__(self, gpu: FakeGpu, number: int, pinned: bool = False) -> None:
        self.gpu = gpu
        self.memory = _Memory(number)
        self.is_pinned = pinned

    def pin_memory(self) -> HostBatch:
        self.gpu.pinned += 1
        return HostBatch(self.gpu, self.memory.number or 0, pinned=True)

    def to(self, device: torch.device, non_blocking: bool = False) -> DeviceBatch:
        assert device == torch.device("cuda", 1)
        assert self.is_pinned
        assert non_blocking
        moved = DeviceBatch(self.gpu)
        source, target = self.memory, moved.memory

        def copy() -> bool:
            assert not source.used_again, "copied from memory that was let go of"
            target.number = source.number
            return True

        self.gpu.on.todo.append(copy)
        return moved

    def __del__(self) -> None:
        self.memory.used_again = True


class DeviceBatch:
    """A batch on the device; there once the stream that copies has run."""

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu
        self.memory = _Memory()
        self._allocated_on = gpu.on
        self._recorded: list[Any] = []
        gpu.live += 1

    def record_stream(self, stream: FakeStream) -> None:
        self._recorded.append(stream)

    def use(self, seen: list[int]) -> None:
        """Computes with the batch: puts its number into a list, some time."""
        memory = self.memory

        def compute() -> bool:
            assert not memory.used_again, "computed with memory that was let go of"
            assert memory.number is not None, "computed before the copy was there"
            seen.append(memory.number)
            return True

        self.gpu.on.todo.append(compute)

    def __del__(self) -> None:
        self.gpu.live -= 1
        # PyTorch keeps memory for the stream it is of, and for those that were recorded.
        kept = {id(stream) for stream in (self._allocated_on, *self._recorded)}
        self.memory.used_again = id(self.gpu.compute) not in kept
