"""Clients, which make requests to stores: by a helper process, or by threads for filesystems."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

from ... import _core
from ..byte_source import ByteBuffer
from .failures import RequestError
from .messages import Fetch, ObjectInfo, StoreAddress
from .ranges import RangeRequest
from .slots import Slots


class HelperError(ConnectionError):
    """The helper process ended before it answered."""


class FetchError(RequestError):
    """A range could not be fetched.

    Attributes:
        begin: First byte that was requested.
        end: Byte after the last one.
    """

    def __init__(self, error: RequestError, request: RangeRequest) -> None:
        super().__init__(error.failure)
        self.begin = request.begin
        self.end = request.begin + request.size


class Client(ABC):
    """Makes requests to stores.

    Safe to use from several threads, in the process that made it.

    Args:
        memory_bytes: Size of the memory for ranges that are fetched.

    Attributes:
        slots: The slots of the memory that requests use.
    """

    def __init__(self, memory_bytes: int) -> None:
        self.slots = Slots(memory_bytes)

    @abstractmethod
    def start(self, name: str, store: StoreAddress, *arguments: Any) -> Future[Any]:
        """Start a request to a store, and return its answer.

        Args:
            name: Name of the request, such as ``"head"``; see :class:`ObjectStore`.
            store: The store.
            arguments: Arguments of the request.
        """

    @abstractmethod
    def data_of(self, fetch: Fetch, answer: Any) -> ByteBuffer:
        """Return the bytes that were fetched, which are valid until their slot is free."""

    @abstractmethod
    def grow(self, memory_bytes: int) -> None:
        """Make the memory at least as large as given."""

    def ask(self, store: StoreAddress, name: str, *arguments: Any) -> Any:
        """Make a request to a store, and return the answer.

        Raises:
            HelperError: If the helper has ended.
            ImportError: If a package is missing.
            RequestError: If the request failed for good.
            ValueError: If the options of the store are not valid.
        """
        return self.start(name, store, *arguments).result()

    def fetch(
        self,
        store: StoreAddress,
        pin: ObjectInfo,
        requests: Sequence[RangeRequest],
        out: ByteBuffer,
    ) -> None:
        """Fetch ranges of an object, several at the same time.

        Args:
            store: The store.
            pin: The object as it was first seen.
            requests: The ranges.
            out: Buffer that the bytes are copied to; uint8.

        Raises:
            FetchError: If a request failed for good.
            HelperError: If the helper has ended.
            ImportError: If a package is missing.
            ValueError: If the options of the store are not valid.
        """
        waiting = deque(requests)
        running: dict[Future[Any], tuple[RangeRequest, Fetch]] = {}
        answered: SimpleQueue[Future[Any]] = SimpleQueue()
        try:
            while waiting or running:
                while waiting:
                    begin, size, _ = waiting[0]
                    slot = self.slots.take(size, is_waiting=not running)
                    if slot is None:
                        break
                    fetch = Fetch(pin, begin, size, slot)
                    answer = self.start("fetch", store, fetch)
                    running[answer] = waiting.popleft(), fetch
                    answer.add_done_callback(answered.put)
                answer = answered.get()
                request, fetch = running[answer]
                try:
                    data = self.data_of(fetch, answer.result())
                except RequestError as error:
                    raise FetchError(error, request) from None
                _core.gather(data, request.copies, out)
                del running[answer]
                self._free(fetch)
        finally:
            for answer, (_, fetch) in running.items():  # the helper may still write to them
                answer.add_done_callback(functools.partial(self._free, fetch))

    def _free(self, fetch: Fetch, _: object = None) -> None:
        self.slots.free(fetch.slot, fetch.size)
