"""The helper process, which makes the requests to object stores.

The runtime of obstore does not survive a fork: a child of a process that has used it hangs. So each
process that loads has a helper of its own, which is started afresh and never forks. It takes
messages from a socket, and writes what it reads to memory that both processes have mapped. It ends
when that socket is closed, and when its parent is gone: a child that the parent forked may still
have the other end.

The messages are those of :mod:`.messages`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import mmap
import os
import resource
import signal
import socket
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

from . import store_requests as requests
from .attempts import most_attempts, seconds_after, seconds_to_wait
from .deadline import Deadline
from .failures import Failure, Kind, classify
from .large_uploads import LargeUploads
from .messages import (
    Fetch,
    FetchReport,
    Put,
    frame_of,
    is_strong,
    take_frames,
)
from .store_requests import WrongObjectError, check_same, info_of_meta
from .stores import Store, make_store, make_writable

_Result = TypeVar("_Result")

MOST_REQUESTS = 64  # at the same time
# Bytes of all of them, if that is more than a quarter of the memory. Each keeps a part of its range
# in memory until it is passed on. More are for stores that limit the speed of each connection.
_LEAST_BYTES = 64 << 20
_PARENT_SECONDS = 1.0  # between two looks at the parent
# What is lost at most when a body breaks off: this much, or an eighth of the range.
_CHUNK_BYTES, _CHUNKS = 1 << 19, 8
_RECEIVE_BYTES = 1 << 18
_TOO_LONG = "the server sent more bytes than were asked for"
# Requests that send much, or have several answers, may take this many times as long.
_MORE_TIME = 10
# obstore reads the body of an error whole. Beyond so much memory, and as much as is shared, this
# process ends.
_MOST_BYTES = 1 << 30
# Giving up uploads that nobody will finish may take this long.
_SECONDS_TO_GIVE_UP = 4.0


class Helper:
    """The requests of one process.

    Args:
        connection: Socket to the process.
        file: Descriptor of the memory that the process has mapped, too.
    """

    def __init__(self, connection: socket.socket, file: int) -> None:
        self._connection = connection
        self._file = file
        self._memory = memoryview(mmap.mmap(file, 0))
        _limit_memory(len(self._memory))
        self._obstore: Any = None  # the package, once there is a store
        self._stores: dict[int, Store] = {}
        self._options: dict[int, dict[str, Any]] = {}
        self._roots: dict[int, str] = {}
        self._writable: dict[int, Any] = {}  # stores of obstore that try again themselves
        self._uploads: LargeUploads | None = None  # once there is one
        self._urgent: OrderedDict[int, Fetch] = OrderedDict()  # by ticket, as the next two
        self._ahead: OrderedDict[int, Fetch] = OrderedDict()
        self._running: dict[int, asyncio.Task[FetchReport | Failure]] = {}
        self._running_bytes = 0  # of their ranges
        self._replies: list[tuple[int, Any]] = []
        self._has_replies = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Serve until the connection is closed."""
        self._start(self._send_replies())
        loop = asyncio.get_running_loop()
        received = bytearray()
        while data := await loop.sock_recv(self._connection, _RECEIVE_BYTES):
            received += data
            for messages in take_frames(received):
                for name, *arguments in messages:
                    getattr(self, f"_on_{name}")(*arguments)

    # ---- messages ----

    def _on_store(self, ticket: int, store: int, root: str, options: dict[str, Any]) -> None:
        self._options[store], self._roots[store] = options, root
        try:
            self._obstore = importlib.import_module("obstore")
            self._stores[store] = make_store(root, options)
            self._reply(ticket, self._stores[store].tried)
        except ImportError as error:
            self._reply(ticket, error)
        except Exception as error:  # noqa: BLE001  # obstore has no common class of these
            # The text of an error about options may have their values.
            self._reply(ticket, ValueError(_without_values(str(error), options)))

    def _on_grow(self, memory_bytes: int) -> None:
        """Map more of the memory. What uses the old mapping has the same memory."""
        self._memory = memoryview(mmap.mmap(self._file, memory_bytes))
        _limit_memory(memory_bytes)

    def _on_fetch(self, *fields: Any) -> None:
        fetch = Fetch(*fields)
        (self._urgent if fetch.is_urgent else self._ahead)[fetch.ticket] = fetch
        self._start_fetches()

    def _on_hurry(self, tickets: list[int]) -> None:
        for ticket in tickets:
            if (fetch := self._ahead.pop(ticket, None)) is not None:
                self._urgent[ticket] = fetch
        self._start_fetches()

    def _on_cancel(self, tickets: list[int]) -> None:
        """Drop requests. Each is answered once its memory is not written anymore."""
        for ticket in tickets:
            if (task := self._running.get(ticket)) is not None:
                task.cancel()
            elif self._ahead.pop(ticket, None) or self._urgent.pop(ticket, None):
                self._reply(ticket, None)

    def _on_head(self, ticket: int, store: int, key: str) -> None:
        self._start(
            self._answer(
                ticket, store, lambda *_: requests.head(self._stores[store], key), patience=1
            )
        )

    def _on_list(self, ticket: int, store: int, prefix: str, is_recursive: bool) -> None:
        client = self._stores[store].client
        self._start(
            self._answer(
                ticket,
                store,
                lambda _, deadline: requests.list_objects(client, prefix, is_recursive, deadline),
            )
        )

    def _on_folders(self, ticket: int, store: int, prefix: str) -> None:
        client = self._stores[store].client
        self._start(self._answer(ticket, store, lambda *_: requests.list_folders(client, prefix)))

    def _on_put(self, ticket: int, store: int, *fields: Any) -> None:
        put, client = Put(*fields), self._stores[store].client
        self._start(
            self._answer(ticket, store, lambda attempt, _: requests.put(client, put, attempt))
        )

    def _on_delete(self, ticket: int, store: int, keys: list[str]) -> None:
        client = self._stores[store].client
        self._start(self._answer(ticket, store, lambda *_: requests.delete(client, keys)))

    def _on_copy(self, ticket: int, store: int, source: str, target: str) -> None:
        client = self._stores[store].client
        self._start(
            self._answer(ticket, store, lambda *_: self._obstore.copy_async(client, source, target))
        )

    def _on_write(self, ticket: int, store: int, key: str, number: int, data: bytes) -> None:
        client = self._writable_client(store)
        self._start(self._answer_once(ticket, self._large.write(number, client, key, data)))

    def _on_finish(self, ticket: int, store: int, key: str, number: int, rest: bytes) -> None:
        client = self._writable_client(store)
        self._start(self._answer_once(ticket, self._large.finish(number, client, key, rest)))

    def _on_give_up(self, ticket: int, _store: int, number: int) -> None:
        work = asyncio.wait_for(self._large.give_up(number), _SECONDS_TO_GIVE_UP)
        self._start(self._answer_once(ticket, work))

    async def give_up_uploads(self) -> None:
        """Drop what was not written to its end."""
        if self._uploads is not None:
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(self._uploads.give_up_all(), _SECONDS_TO_GIVE_UP)

    # ---- requests ----

    @property
    def _large(self) -> LargeUploads:
        if self._uploads is None:
            self._uploads = LargeUploads()
        return self._uploads

    def _writable_client(self, store: int) -> Any:
        if store not in self._writable:
            self._writable[store] = make_writable(self._roots[store], self._options[store])
        return self._writable[store]

    def _start_fetches(self) -> None:
        while len(self._running) < MOST_REQUESTS:
            queue = self._urgent or self._ahead
            if not queue:
                return
            ticket, fetch = next(iter(queue.items()))
            most = max(_LEAST_BYTES, len(self._memory) // 4)
            if self._running and self._running_bytes + fetch.size > most:
                return
            del queue[ticket]
            task = asyncio.ensure_future(self._fetch(fetch))
            self._running[ticket] = task
            self._running_bytes += fetch.size
            task.add_done_callback(functools.partial(self._finish, ticket, fetch.size))

    def _finish(self, ticket: int, size: int, task: asyncio.Task[FetchReport | Failure]) -> None:
        del self._running[ticket]
        self._running_bytes -= size
        error = None if task.cancelled() else task.exception()
        if error is not None:  # a mistake of this module must not leave anybody waiting
            self._reply(ticket, Failure(Kind.refused, type(error).__name__))
        else:
            self._reply(ticket, None if task.cancelled() else task.result())
        self._start_fetches()

    async def _fetch(self, fetch: Fetch) -> FetchReport | Failure:
        """Fetch a range, with a cache only what that lacks."""
        if fetch.blocks is None:
            return await self._fetch_range(fetch)
        from .cached_fetch import fetch_blocks  # noqa: PLC0415  # not without a cache

        memory = self._memory[fetch.target : fetch.target + fetch.size]
        return await fetch_blocks(fetch, fetch.blocks, memory, self._fetch_range)

    async def _fetch_range(self, fetch: Fetch) -> FetchReport | Failure:
        """Fetch a range, resuming inside it after a failure."""
        done = attempt = 0
        wait = 0.0
        began = time.monotonic()
        while True:
            attempt += 1
            try:
                with Deadline(seconds_to_wait(self._options[fetch.store])) as deadline:
                    async for chunk in self._chunks(fetch, done, deadline):
                        wait = wait or time.monotonic() - began
                        if len(chunk) > fetch.size - done:  # others' memory follows
                            return Failure(Kind.refused, _TOO_LONG, attempt)
                        for begin, end, target in fetch.places(done, len(chunk)):
                            self._memory[target : target + end - begin] = chunk[begin:end]
                        done += len(chunk)
                if done == fetch.size:
                    return FetchReport(wait, time.monotonic() - began - wait)
                failure = Failure(Kind.temporary, "the body ended early")
            except WrongObjectError as error:
                return Failure(Kind.changed, str(error), attempt)
            except Exception as error:  # noqa: BLE001  # obstore has no common class of these
                failure = classify(error)
            if failure.kind is not Kind.temporary or attempt >= most_attempts(
                self._options[fetch.store]
            ):
                return failure._replace(attempts=attempt)
            await asyncio.sleep(seconds_after(attempt))

    async def _chunks(
        self, fetch: Fetch, done: int, deadline: Deadline
    ) -> AsyncIterator[memoryview]:
        """Yield the rest of a range as it arrives, and extend the deadline each time."""
        begin, end = fetch.begin + done, fetch.begin + fetch.size
        options: dict[str, Any] = {"range": (begin, end)}
        if is_strong(fetch.pin.etag):
            options["if_match"] = fetch.pin.etag
        elif fetch.pin.version:
            options["version"] = fetch.pin.version
        client = self._stores[fetch.store].client
        result = await self._obstore.get_async(client, fetch.pin.key, options=options)
        deadline.extend()
        check_same(info_of_meta(result.meta), fetch.pin, result.range, (begin, end))
        if end - begin <= _CHUNK_BYTES:
            yield memoryview(await result.bytes_async())
            return
        # Each chunk costs a switch of threads.
        least = max(_CHUNK_BYTES, (end - begin) // _CHUNKS)
        async for chunk in result.stream(min_chunk_size=least):
            deadline.extend()
            yield memoryview(chunk)

    async def _answer_once(self, ticket: int, work: Awaitable[_Result]) -> None:
        """Send the answer to a request that obstore itself tries again."""
        try:
            self._reply(ticket, await work)
        except Exception as error:  # noqa: BLE001  # as above
            self._reply(ticket, classify(error, counts_retries=True))

    async def _answer(
        self,
        ticket: int,
        store: int,
        ask: Callable[[int, Deadline], Awaitable[_Result]],
        *,
        patience: int = _MORE_TIME,
    ) -> None:
        """Ask until there is an answer, and send it.

        Args:
            ticket: Number of the request.
            store: Number of the store.
            ask: Called with the number of the attempt, and with its deadline.
            patience: Multiple of the user's timeout after which an attempt ends.
        """
        attempt = 0
        seconds = patience * seconds_to_wait(self._options[store])
        while True:
            attempt += 1
            try:
                with Deadline(seconds) as deadline:
                    result = await ask(attempt, deadline)
                return self._reply(ticket, result)
            except WrongObjectError as error:
                failure = Failure(Kind.changed, str(error))
            except Exception as error:  # noqa: BLE001  # as above
                failure = classify(error)
            if self._is_final(failure, attempt, store):
                return self._reply(ticket, failure._replace(attempts=attempt))
            await asyncio.sleep(seconds_after(attempt))

    def _is_final(self, failure: Failure, attempt: int, store: int) -> bool:
        """Return whether a request is not tried again."""
        is_last = attempt >= most_attempts(self._options[store])
        return failure.kind is not Kind.temporary or is_last

    # ---- replies ----

    def _reply(self, ticket: int, result: Any) -> None:
        self._replies.append((ticket, result))
        self._has_replies.set()

    async def _send_replies(self) -> None:
        """Send all replies that are there, in one frame."""
        loop = asyncio.get_running_loop()
        while True:
            await self._has_replies.wait()
            self._has_replies.clear()
            replies, self._replies = self._replies, []
            await loop.sock_sendall(self._connection, frame_of(replies))

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _without_values(text: str, options: Mapping[str, Any]) -> str:
    """Return a text without the values of options."""
    for value in options.values():
        if isinstance(value, Mapping):
            text = _without_values(text, value)
        elif len(str(value)) > 3:
            text = text.replace(str(value), "...")
    return text.partition("\n\nDebug source")[0]


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
    helper = Helper(connection, file)
    watch = asyncio.ensure_future(_watch_parent(parent, helper))
    try:
        await helper.serve()
    finally:
        watch.cancel()
        await helper.give_up_uploads()


async def _watch_parent(parent: int, helper: Helper) -> None:
    while os.getppid() == parent:  # noqa: ASYNC110  # nothing tells when that changes
        await asyncio.sleep(_PARENT_SECONDS)
    await helper.give_up_uploads()
    os._exit(0)
