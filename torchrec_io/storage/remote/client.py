"""Clients, which pass requests on to a helper: a process, or a thread for filesystems."""

from __future__ import annotations

import itertools
import mmap
import os
import tempfile
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..byte_source import ByteBuffer
from .messages import ObjectInfo

if TYPE_CHECKING:
    from ..cache.object_blocks import ObjectBlocks


class HelperError(ConnectionError):
    """The helper ended before it answered."""


class Ticket:
    """A request, and later its answer.

    Attributes:
        number: Number of the request.
        is_done: Whether there is an answer.
        result: The answer.
    """

    __slots__ = ("is_done", "number", "result")

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_done = False
        self.result: Any = None


class FetchMemory:
    """Memory of a file without a name, which is used once it is written.

    Attributes:
        descriptor: Descriptor of the file.
    """

    def __init__(self) -> None:
        self.descriptor = _anonymous_file()
        weakref.finalize(self, os.close, self.descriptor).atexit = False

    def map(self, size: int) -> ByteBuffer:
        """Return the memory, made larger. Earlier mappings of it remain valid."""
        os.ftruncate(self.descriptor, size)
        return np.frombuffer(mmap.mmap(self.descriptor, size), np.uint8)


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("torchrec_io_fetch")
    with tempfile.TemporaryFile(prefix="torchrec_io-") as file:
        return os.dup(file.fileno())


class Client(ABC):
    """Passes requests on to a helper, and its answers back.

    Safe to use from several threads. After a fork, only :meth:`forget` may be called.

    Args:
        memory_bytes: Size of the memory that is shared with the helper.

    Attributes:
        memory: The memory; uint8.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._file = FetchMemory()
        self.memory: ByteBuffer = self._file.map(memory_bytes)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Ticket] = {}  # by number; changed under the condition
        self._condition = threading.Condition()
        self._failure: str | None = None

    @abstractmethod
    def send(self, messages: Sequence[tuple[Any, ...]]) -> None:
        """Send messages to the helper.

        Raises:
            HelperError: If the helper has ended.
        """

    @abstractmethod
    def close(self) -> None:
        """End the helper."""

    @abstractmethod
    def forget(self) -> None:
        """Drop what belongs to the parent of this process, after a fork."""

    def wait(self, tickets: Iterable[Ticket]) -> None:
        """Wait until each of some requests is answered.

        Raises:
            HelperError: If the helper has ended.
        """
        for ticket in tickets:
            if not ticket.is_done:
                with self._condition:
                    while not ticket.is_done:
                        self._check()
                        self._condition.wait()

    def new_ticket(self) -> Ticket:
        """Return the ticket of a new request."""
        ticket = Ticket(next(self._numbers))
        with self._condition:
            self._waiting[ticket.number] = ticket
        return ticket

    def ask(self, name: str, store: int, *arguments: Any) -> Any:
        """Make a request to a store, and return the answer."""
        ticket = self.new_ticket()
        self.send([("ask", ticket.number, name, store, *arguments)])
        self.wait([ticket])
        return ticket.result

    def grow(self, memory_bytes: int) -> None:
        """Make the memory larger. What is in it stays at its place.

        Raises:
            HelperError: If the helper has ended.
        """
        self.memory = self._file.map(memory_bytes)
        self.send([("grow", memory_bytes)])

    def has_failed(self) -> bool:
        """Return whether the helper has ended."""
        return self._failure is not None

    def _answer(self, answers: Iterable[tuple[int, Any]]) -> None:
        with self._condition:
            for number, result in answers:
                ticket = self._waiting.pop(number, None)
                if ticket is not None:
                    ticket.result = result
                    ticket.is_done = True
            self._condition.notify_all()

    def _fail(self, reason: str) -> None:
        with self._condition:
            self._failure = self._failure or reason
            self._waiting.clear()
            self._condition.notify_all()

    def _check(self) -> None:
        if self._failure is not None:
            raise HelperError(self._failure)


class OpenObject(NamedTuple):
    """An object of a store, as it was when it was opened.

    Attributes:
        store: Number of the store, in the client.
        pin: The object; all reads are of exactly this one.
        blocks: Its blocks in a cache; None without a cache.
    """

    store: int
    pin: ObjectInfo
    blocks: ObjectBlocks | None = None


class KnownStore(NamedTuple):
    """A store that the client knows.

    Attributes:
        number: Its number.
        tried: Credentials that requests have, in words.
    """

    number: int
    tried: str
