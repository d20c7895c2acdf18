"""Interface of clients, which carry out requests to stores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..byte_source import ByteBuffer
from .connection import Ticket
from .messages import ObjectInfo

if TYPE_CHECKING:
    from ..cache.object_blocks import ObjectBlocks


class Client(Protocol):
    """Carries out requests; see :class:`HelperConnection`."""

    memory: ByteBuffer

    def new_ticket(self) -> Ticket: ...
    def send(self, messages: Sequence[tuple[Any, ...]]) -> None: ...
    def ask(self, name: str, *arguments: Any) -> Any: ...
    def wait(self, tickets: Iterable[Ticket]) -> None: ...
    def grow(self, memory_bytes: int) -> None: ...
    def has_failed(self) -> bool: ...
    def forget(self) -> None: ...
    def close(self) -> None: ...


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
