"""A simulated GPU whose streams run when a test says so, and whose memory is reused at once.

Work on a stream runs only in :meth:`FakeGpu.run`. Memory that Python frees is reused immediately,
unless PyTorch's rules (``record_stream``) protect it; page-locked memory is kept until copies from
it end. Using freed memory, or data whose copy has not run, raises an AssertionError.
"""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from torchrec_io._tensors.device import _side_stream


class FakeGpu:
    """A GPU with two independent streams."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.compute = FakeStream()
        self.copying: list[FakeStream] = []
        self.on: FakeStream = self.compute
        self.live = 0  # batches on the device that Python references
        self.pinned = 0  # number of page-locked batches
        fresh = functools.cache(_side_stream.__wrapped__)
        monkeypatch.setattr("torchrec_io._tensors.device._side_stream", fresh)
        cuda = torch.cuda
        monkeypatch.setattr(cuda, "is_available", lambda: True)
        monkeypatch.setattr(cuda, "_is_in_bad_fork", lambda: False)
        monkeypatch.setattr(cuda, "device_count", lambda: 2)
        monkeypatch.setattr(cuda, "current_device", lambda: 1)
        monkeypatch.setattr(cuda, "device", contextlib.nullcontext)
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
        """Run some of the work of a stream."""
        while steps and stream.todo and stream.todo[0]():
            stream.todo.popleft()
            steps -= 1

    def finish(self) -> None:
        """Run all work of all streams."""
        for stream in (*self.copying, self.compute):
            self.run(stream)
        assert not any(stream.todo for stream in (*self.copying, self.compute))


class FakeStream:
    """Queue of work. Each function returns whether it could run."""

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
        self.stream = stream

    def happen(self) -> bool:
        self.happened = True
        return True

    def query(self) -> bool:
        return self.happened

    def synchronize(self) -> None:
        """Let the work before it run."""
        while not self.happened:
            self.stream.todo.popleft()()


class _Memory:
    """Memory of a batch, which outlives the batch while streams still use it."""

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
            target.number = source.number
            return True

        self.gpu.on.todo.append(copy)
        return moved


class DeviceBatch:
    """A batch on the device, valid after the copying stream has run."""

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu
        self.memory = _Memory()
        self._allocated_on = gpu.on
        self._recorded: list[Any] = []
        gpu.live += 1

    def record_stream(self, stream: FakeStream) -> None:
        self._recorded.append(stream)

    def use(self, seen: list[int]) -> None:
        """Queue a computation that appends the batch's number to a list."""
        memory = self.memory

        def compute() -> bool:
            assert not memory.used_again, "computed with memory that was let go of"
            assert memory.number is not None, "computed before the copy was there"
            seen.append(memory.number)
            return True

        self.gpu.on.todo.append(compute)

    def __del__(self) -> None:
        self.gpu.live -= 1
        # PyTorch keeps memory for its own stream and for recorded streams.
        kept = {id(stream) for stream in (self._allocated_on, *self._recorded)}
        self.memory.used_again = id(self.gpu.compute) not in kept
