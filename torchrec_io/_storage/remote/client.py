"""Clients, which make requests to stores: by a helper process, or by filesystems of fsspec."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ..byte_source import ByteBuffer
from ..stamp import Stamp
from .failures import RequestError
from .messages import StoreAddress
from .ranges import RangeRequest


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
    """Makes requests to stores. Safe to use from several threads, in the process that made it."""

    @abstractmethod
    def ask(
        self, store: StoreAddress, name: str, *arguments: Any, timeout: float | None = None
    ) -> Any:
        """Make a request to a store, and return the answer.

        Args:
            store: The store.
            name: Name of the request, such as ``"head"``; see :class:`ObjectStore`.
            arguments: Arguments of the request.
            timeout: Seconds to wait for the answer of a helper. Default: no limit.

        Raises:
            HelperError: If the helper has ended.
            ImportError: If a package is missing.
            RequestError: If the request failed for good.
            TimeoutError: If there is no answer in time.
            ValueError: If the options of the store are not valid.
        """

    @abstractmethod
    def fetch(
        self,
        store: StoreAddress,
        key: str,
        stamp: Stamp,
        requests: Sequence[RangeRequest],
        out: ByteBuffer,
    ) -> None:
        """Fetch ranges of an object, several at the same time.

        Args:
            store: The store.
            key: Name of the object in the store.
            stamp: Stamp of the object as it was first seen.
            requests: The ranges.
            out: Buffer that the bytes are copied to; uint8. Nothing is written to it after this
                function has returned or raised an error.

        Raises:
            FetchError: If a request failed for good.
            HelperError: If the helper has ended.
            ImportError: If a package is missing.
            ValueError: If the options of the store are not valid.
        """
