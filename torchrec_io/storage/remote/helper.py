"""The helper process, which makes the requests to object stores.

The runtime of obstore does not survive a fork: a child of a process that has used it hangs. So each
process that loads has a helper of its own, which is started afresh and never forks. It takes
messages from a socket, and writes what it reads to memory that both processes have mapped. It ends
when that socket is closed, and when its parent is gone: a child that the parent forked may still
have the other end. Filesystems of fsspec have a helper, too, in a thread of the loading process.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import mmap
import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from .attempts import seconds_after
from .failures import Failure, Kind, RequestError
from .large_uploads import LargeUploads
from .messages import Fetch, ObjectInfo, frame_of, take_frames

_Result = TypeVar("_Result")

MOST_REQUESTS = 64  # at the same time
# Bytes of all of them, if that is more than a quarter of the memory. Each keeps a part of its range
# in memory until it is passed on. More are for stores that limit the speed of each connection.
_LEAST_BYTES = 64 << 20
_PARENT_SECONDS = 1.0  # between two looks at the parent
_RECEIVE_BYTES = 1 << 18
_REPEATED_BY_OBSTORE = frozenset({"write", "finish", "give_up"})
_TOO_LONG = Failure(Kind.refused, "the server sent more bytes than were asked for")
_TOO_SHORT = Failure(Kind.temporary, "the body ended early")
# obstore reads the body of an error whole. Beyond so much memory, and as much as is shared, this
# process ends.
_MOST_BYTES = 1 << 30


class Store(Protocol):
    """Asynchronous requests to a store; see :class:`ObjectStore` and :class:`Filesystem`."""

    tried: str
    most_attempts: int

    def classify(self, error: BaseException, /) -> Failure: ...
    def chunks(self, pin: ObjectInfo, begin: int, end: int) -> AsyncIterator[memoryview]: ...


class Helper:
    """The requests of one process.

    Args:
        file: Descriptor of the memory that the process has mapped, too.
        make_store: Called with the root and the options of a store; returns the store.
        reply: Called with the number of a request, and with its answer.
    """

    def __init__(
        self,
        file: int,
        make_store: Callable[[str, Mapping[str, Any]], Store],
        reply: Callable[[int, Any], None],
    ) -> None:
        self._file = file
        self._memory = memoryview(mmap.mmap(file, 0))
        self._make_store = make_store
        self._reply = reply
        self._stores: dict[int, Store] = {}
        self._queue: dict[int, Fetch] = {}  # by ticket, as the next one
        self._running: dict[int, asyncio.Task[str | Failure]] = {}
        self._running_bytes = 0  # of their ranges
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def memory_bytes(self) -> int:
        """Size of the memory that is shared."""
        return len(self._memory)

    # ---- messages ----

    def handle(self, messages: Iterable[tuple[Any, ...]]) -> None:
        """Start what some messages ask for."""
        for name, *arguments in messages:
            getattr(self, f"_on_{name}")(*arguments)

    def _on_ask(self, ticket: int, name: str, store: int, *arguments: Any) -> None:
        task = asyncio.ensure_future(self._answer(ticket, name, store, *arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_grow(self, memory_bytes: int) -> None:
        """Map more of the memory. What uses the old mapping has the same memory."""
        self._memory = memoryview(mmap.mmap(self._file, memory_bytes))

    def _on_fetch(self, *fields: Any) -> None:
        fetch = Fetch(*fields)
        self._queue[fetch.ticket] = fetch
        self._start_fetches()

    def _on_cancel(self, tickets: list[int]) -> None:
        """Drop requests. Each is answered once its memory is not written anymore."""
        for ticket in tickets:
            if (task := self._running.get(ticket)) is not None:
                task.cancel()
            else:  # also one that has ended, or was never sent
                self._queue.pop(ticket, None)
                self._reply(ticket, None)

    # ---- ranges ----

    def _start_fetches(self) -> None:
        while len(self._running) < MOST_REQUESTS:
            if not self._queue:
                return
            ticket, fetch = next(iter(self._queue.items()))
            most = max(_LEAST_BYTES, len(self._memory) // 4)
            if self._running and self._running_bytes + fetch.size > most:
                return
            del self._queue[ticket]
            task = asyncio.ensure_future(self._fetch(fetch))
            self._running[ticket] = task
            self._running_bytes += fetch.size
            task.add_done_callback(functools.partial(self._finish, ticket, fetch.size))

    def _finish(self, ticket: int, size: int, task: asyncio.Task[str | Failure]) -> None:
        del self._running[ticket]
        self._running_bytes -= size
        error = None if task.cancelled() else task.exception()
        if error is not None:  # a mistake of this module must not leave anybody waiting
            self._reply(ticket, Failure(Kind.refused, type(error).__name__))
        else:
            self._reply(ticket, None if task.cancelled() else task.result())
        self._start_fetches()

    async def _fetch(self, fetch: Fetch) -> str | Failure:
        """Fetch a range, with a cache only what that lacks."""
        if fetch.blocks is None:
            return await self._fetch_range(fetch)
        from .cached_fetch import fetch_blocks  # noqa: PLC0415  # not without a cache

        memory = self._memory[fetch.target : fetch.target + fetch.size]
        return await fetch_blocks(fetch, fetch.blocks, memory, self._fetch_range)

    async def _fetch_range(self, fetch: Fetch) -> str | Failure:
        """Fetch a range, resuming inside it after a failure."""
        store = self._stores[fetch.store]
        done = 0

        async def fetch_rest() -> str:
            nonlocal done
            end = fetch.begin + fetch.size
            async for chunk in store.chunks(fetch.pin, fetch.begin + done, end):
                if len(chunk) > fetch.size - done:  # others' memory follows
                    raise RequestError(_TOO_LONG)
                for first, last, target in fetch.places(done, len(chunk)):
                    self._memory[target : target + last - first] = chunk[first:last]
                done += len(chunk)
            if done < fetch.size:
                raise RequestError(_TOO_SHORT)
            return ""  # no trouble

        return await _repeat(store, fetch_rest, store.most_attempts)

    # ---- other requests ----

    async def _answer(self, ticket: int, name: str, number: int, *arguments: Any) -> None:
        """Make a request, and send the answer."""
        try:
            if name == "make":
                self._stores[number] = store = self._make_store(*arguments)
                return self._reply(ticket, store.tried)
            store = self._stores[number]
            work = functools.partial(getattr(store, name), *arguments)
            most_attempts = 1 if name in _REPEATED_BY_OBSTORE else store.most_attempts
            self._reply(ticket, await _repeat(store, work, most_attempts))
        except (ImportError, ValueError) as error:
            self._reply(ticket, error)


async def _repeat(
    store: Store, work: Callable[[], Awaitable[_Result]], most_attempts: int
) -> _Result | Failure:
    """Do something until it succeeds; return its result, or the failure of the last attempt."""
    for attempt in itertools.count(1):
        try:
            return await work()
        except Exception as error:  # noqa: BLE001  # packages have no common class of these
            failure = store.classify(error)
        if failure.kind is not Kind.temporary or attempt >= most_attempts:
            return failure._replace(attempts=max(attempt, failure.attempts))
        await asyncio.sleep(seconds_after(attempt))
    raise AssertionError


# ---- the process ----


def _limit_memory(shared: int) -> None:
    """Limit the memory of this process that is not shared."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _MOST_BYTES + shared
    soft = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, most))


def main() -> None:
    """Serve the process that started this one; the arguments are those of the client."""
    connection_descriptor, memory_descriptor, parent = map(int, sys.argv[1:4])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it ends where memory is short
    connection = socket.socket(fileno=connection_descriptor)
    connection.setblocking(False)
    try:
        asyncio.run(_serve(connection, memory_descriptor, parent))
    except (ConnectionError, KeyboardInterrupt):
        pass
    finally:
        os._exit(0)  # threads of the runtime may still read


async def _serve(connection: socket.socket, file: int, parent: int) -> None:
    from .object_store import ObjectStore  # noqa: PLC0415  # not for filesystems

    loop = asyncio.get_running_loop()
    uploads = LargeUploads()
    replies: list[tuple[int, Any]] = []
    has_replies = asyncio.Event()

    def reply(ticket: int, result: Any) -> None:
        replies.append((ticket, result))
        has_replies.set()

    async def send_replies() -> None:
        while True:
            await has_replies.wait()
            has_replies.clear()
            frame = frame_of(replies)  # all that are there
            replies.clear()
            await loop.sock_sendall(connection, frame)

    helper = Helper(file, functools.partial(ObjectStore, uploads=uploads), reply)
    others = [
        asyncio.ensure_future(each) for each in (send_replies(), _watch_parent(parent, uploads))
    ]
    received = bytearray()
    _limit_memory(helper.memory_bytes)
    try:
        while data := await loop.sock_recv(connection, _RECEIVE_BYTES):
            received += data
            for messages in take_frames(received):
                helper.handle(messages)
            _limit_memory(helper.memory_bytes)
    finally:
        for each in others:
            each.cancel()
        await uploads.give_up_all()


async def _watch_parent(parent: int, uploads: LargeUploads) -> None:
    while os.getppid() == parent:  # noqa: ASYNC110  # nothing tells when that changes
        await asyncio.sleep(_PARENT_SECONDS)
    await uploads.give_up_all()
    os._exit(0)
