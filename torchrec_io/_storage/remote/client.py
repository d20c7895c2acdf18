"""Clients, which pass requests on to a helper: a process, or a thread for filesystems."""

from __future__ import annotations

import functools
import itertools
import mmap
import os
import tempfile
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

import numpy as np

from ..byte_source import ByteBuffer
from .failures import Failure
from .messages import Fetch, ObjectInfo, StoreAddress
from .ranges import MOST_PART_BYTES, RangeRequest
from .slots import Slots

_LEAST_PARTS = 8  # of all memory


class HelperError(ConnectionError):
    """The helper ended before it answered."""


class FetchError(Exception):
    """A range could not be fetched.

    Attributes:
        failure: Why.
        begin: First byte that was requested.
        end: Byte after the last one.
    """

    def __init__(self, failure: Failure, begin: int, end: int) -> None:
        super().__init__(failure.reason)
        self.failure = failure
        self.begin = begin
        self.end = end


class Client(ABC):
    """Passes requests on to a helper, and its answers back.

    Safe to use from several threads. After a fork, only :meth:`close_in_child` may be called.

    Args:
        memory_bytes: Size of the memory that is shared with the helper.
        environment: Number of the environment that the client is made in.

    Attributes:
        environment: Number of the environment that the client was made in.
        pid: Process that this is for.
        memory: The memory; uint8.
        slots: The slots of it that requests use.
    """

    def __init__(self, memory_bytes: int, environment: int = 0) -> None:
        self.environment = environment
        self.pid = os.getpid()
        self.slots = Slots(memory_bytes)
        self._descriptor = _anonymous_file()
        weakref.finalize(self, os.close, self._descriptor).atexit = False
        self.memory = self._map(memory_bytes)
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._answers: dict[int, Future[Any]] = {}  # to come, by the number of the request
        self._failure: str | None = None

    @abstractmethod
    def send(self, name: str, *arguments: Any) -> None:
        """Send a message to the helper."""

    @abstractmethod
    def close(self) -> None:
        """End the helper."""

    @abstractmethod
    def close_in_child(self) -> None:
        """Close the copy of a client in a forked child; the client of the parent stays open."""

    def ask(self, store: StoreAddress, name: str, *arguments: Any) -> Any:
        """Make a request to a store, and return the answer.

        Raises:
            HelperError: If the helper has ended.
            ImportError: If a package is missing.
            ValueError: If the options of the store are not valid.
        """
        return self._request("ask", store, name, *arguments).result()

    def fetch(
        self,
        store: StoreAddress,
        pin: ObjectInfo,
        requests: Sequence[RangeRequest],
        take: Callable[[RangeRequest, ByteBuffer], None],
    ) -> None:
        """Fetch ranges of an object, several at the same time.

        Args:
            store: The store.
            pin: The object as it was first seen.
            requests: The ranges, each of at most :attr:`most_part_bytes`.
            take: Function that is called with each request and its bytes, in the order in which
                they arrive. The bytes are valid during the call.

        Raises:
            FetchError: If a request failed for good.
            HelperError: If the helper has ended.
            ImportError: If a package is missing.
            ValueError: If the options of the store are not valid.
        """
        waiting = deque(requests)
        running: dict[Future[Any], tuple[RangeRequest, int]] = {}  # with their slots
        answered: SimpleQueue[Future[Any]] = SimpleQueue()
        try:
            while waiting or running:
                while waiting:
                    begin, size, _ = waiting[0]
                    slot = self.slots.take(size, is_waiting=not running)
                    if slot is None:
                        break
                    answer = self._request("fetch", Fetch(store, pin, begin, size, slot))
                    running[answer] = waiting.popleft(), slot
                    answer.add_done_callback(answered.put)
                answer = answered.get()
                request, slot = running[answer]
                result = answer.result()
                if isinstance(result, Failure):
                    raise FetchError(result, request.begin, request.begin + request.size)
                take(request, self.memory[slot : slot + request.size])
                del running[answer]
                self._free(slot, request.size)
        finally:
            for answer, (request, slot) in running.items():  # the helper may still write to them
                answer.add_done_callback(functools.partial(self._free, slot, request.size))

    @property
    def most_part_bytes(self) -> int:
        """Size of the largest request in bytes."""
        return min(MOST_PART_BYTES, len(self.memory) // _LEAST_PARTS)

    def grow(self, memory_bytes: int) -> None:
        """Make the memory at least as large as given. Its content keeps its offsets."""
        if memory_bytes > len(self.memory):
            self.memory = self._map(memory_bytes)
            self.send("grow", memory_bytes)
            self.slots.grow(memory_bytes)

    def has_failed(self) -> bool:
        """Return whether the helper has ended."""
        return self._failure is not None

    def _request(self, message: str, *arguments: Any) -> Future[Any]:
        """Send a request; return its answer."""
        answer: Future[Any] = Future()
        with self._lock:
            number = next(self._numbers)
            if self._failure is None:
                self._answers[number] = answer
            else:
                answer.set_exception(HelperError(self._failure))
        if not answer.done():
            self.send(message, number, *arguments)
        return answer

    def _answer(self, number: int, result: Any) -> None:
        with self._lock:
            answer = self._answers.pop(number, None)
        if isinstance(result, Exception) and answer is not None:
            answer.set_exception(result)
        elif answer is not None:
            answer.set_result(result)

    def _fail(self, reason: str) -> None:
        with self._lock:
            self._failure = self._failure or reason
            answers, self._answers = self._answers, {}
        for answer in answers.values():
            answer.set_exception(HelperError(reason))

    def _free(self, slot: int, size: int, _: object = None) -> None:
        self.slots.free(slot, size)

    def _map(self, size: int) -> ByteBuffer:
        """Return the memory, made larger. Earlier mappings of it remain valid."""
        os.ftruncate(self._descriptor, size)
        return np.frombuffer(mmap.mmap(self._descriptor, size), np.uint8)


def _anonymous_file() -> int:
    """Return the descriptor of a file without a name, which is used once it is written."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("torchrec_io_fetch")
    with tempfile.TemporaryFile(prefix="torchrec_io-") as file:
        return os.dup(file.fileno())
