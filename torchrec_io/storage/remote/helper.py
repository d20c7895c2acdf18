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
import functools
import importlib
import mmap
import os
import random
import signal
import socket
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from .failures import Failure, Kind, classify
from .messages import (
    Fetch,
    FetchReport,
    ObjectInfo,
    canonical_etag,
    frame_of,
    is_strong,
    take_frames,
)
from .stores import Store, make_store, most_attempts, seconds_to_wait

_Result = TypeVar("_Result")

MOST_REQUESTS = 64  # at the same time
_PARENT_SECONDS = 1.0  # between two looks at the parent
_CHUNK_BYTES = 1 << 18  # what is lost at most when a body breaks off
_RECEIVE_BYTES = 1 << 18
_FIRST_DELAY, _LONGEST_DELAY = 0.1, 15.0
_LIST_CHUNK = 1000


class Helper:
    """The requests of one process.

    Args:
        connection: Socket to the process.
        memory: Memory that the process has mapped, too.
    """

    def __init__(self, connection: socket.socket, memory: mmap.mmap) -> None:
        self._connection = connection
        self._memory = memoryview(memory)
        self._obstore: Any = None  # the package, once there is a store
        self._stores: dict[int, Store] = {}
        self._options: dict[int, dict[str, Any]] = {}
        self._urgent: OrderedDict[int, Fetch] = OrderedDict()  # by ticket, as the next two
        self._ahead: OrderedDict[int, Fetch] = OrderedDict()
        self._running: dict[int, asyncio.Task[FetchReport | Failure]] = {}
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
        self._options[store] = options
        try:
            self._obstore = importlib.import_module("obstore")
            self._stores[store] = make_store(root, options)
            self._reply(ticket, self._stores[store].tried)
        except ImportError as error:
            self._reply(ticket, error)
        except Exception as error:  # noqa: BLE001  # obstore has no common class of these
            # The text of an error about options may have their values.
            self._reply(ticket, ValueError(_without_values(str(error), options)))

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
        self._start(self._answer(ticket, store, lambda: self._head(store, key)))

    def _on_list(self, ticket: int, store: int, prefix: str, is_recursive: bool) -> None:
        self._start(self._answer(ticket, store, lambda: self._list(store, prefix, is_recursive)))

    # ---- requests ----

    def _start_fetches(self) -> None:
        while len(self._running) < MOST_REQUESTS:
            queue = self._urgent or self._ahead
            if not queue:
                return
            ticket, fetch = queue.popitem(last=False)
            task = asyncio.ensure_future(self._fetch(fetch))
            self._running[ticket] = task
            task.add_done_callback(functools.partial(self._finish, ticket))

    def _finish(self, ticket: int, task: asyncio.Task[FetchReport | Failure]) -> None:
        del self._running[ticket]
        error = None if task.cancelled() else task.exception()
        if error is not None:  # a mistake of this module must not leave anybody waiting
            self._reply(ticket, Failure(Kind.refused, type(error).__name__))
        else:
            self._reply(ticket, None if task.cancelled() else task.result())
        self._start_fetches()

    async def _fetch(self, fetch: Fetch) -> FetchReport | Failure:
        """Fetch a range, resuming inside it after a failure."""
        done = attempt = 0
        wait = 0.0
        began = time.monotonic()
        while True:
            attempt += 1
            try:
                async for chunk in self._chunks(fetch, done):
                    wait = wait or time.monotonic() - began
                    start = fetch.target + done
                    self._memory[start : start + len(chunk)] = chunk
                    done += len(chunk)
                if done == fetch.size:
                    return FetchReport(wait, time.monotonic() - began - wait)
                failure = Failure(Kind.temporary, "the body ended early")
            except _WrongObjectError as error:
                return Failure(Kind.changed, str(error), attempt)
            except Exception as error:  # noqa: BLE001  # obstore has no common class of these
                failure = classify(error)
            if failure.kind is not Kind.temporary or attempt >= most_attempts(
                self._options[fetch.store]
            ):
                return failure._replace(attempts=attempt)
            await _pause(attempt)

    async def _chunks(self, fetch: Fetch, done: int) -> AsyncIterator[memoryview]:
        """Yield the rest of a range as it arrives."""
        timeout = seconds_to_wait(self._options[fetch.store])
        begin, end = fetch.begin + done, fetch.begin + fetch.size
        options: dict[str, Any] = {"range": (begin, end)}
        if is_strong(fetch.pin.etag):
            options["if_match"] = fetch.pin.etag
        elif fetch.pin.version:
            options["version"] = fetch.pin.version
        client = self._stores[fetch.store].client
        result = await asyncio.wait_for(
            self._obstore.get_async(client, fetch.pin.key, options=options), timeout
        )
        _check_same(_info(result.meta), fetch.pin, result.range, (begin, end))
        if end - begin <= _CHUNK_BYTES:
            yield memoryview(await asyncio.wait_for(result.bytes_async(), timeout))
            return
        stream = result.stream(min_chunk_size=_CHUNK_BYTES).__aiter__()
        while True:
            try:
                chunk = await asyncio.wait_for(stream.__anext__(), timeout)
            except StopAsyncIteration:
                return
            yield memoryview(chunk)

    async def _head(self, store: int, key: str) -> ObjectInfo:
        client, is_web = self._stores[store].client, self._stores[store].is_web
        if is_web:
            # A signed URL is often for GET alone. An empty file has no first byte.
            try:
                got = await self._obstore.get_async(client, key, options={"range": (0, 1)})
                return _info(got.meta)
            except Exception as error:
                if classify(error).kind is not Kind.refused:
                    raise
        return _info(await self._obstore.head_async(client, key))

    async def _list(self, store: int, prefix: str, is_recursive: bool) -> list[ObjectInfo]:
        client, prefix = self._stores[store].client, prefix.rstrip("/")
        if not is_recursive:
            found = await self._obstore.list_with_delimiter_async(client, prefix or None)
            return [_info(meta) for meta in found["objects"]]
        stream = self._obstore.list(client, prefix or None, chunk_size=_LIST_CHUNK)
        return [_info(meta) async for chunk in stream for meta in chunk]

    async def _answer(self, ticket: int, store: int, ask: Callable[[], Awaitable[_Result]]) -> None:
        """Ask until there is an answer, and send it."""
        attempt = 0
        while True:
            attempt += 1
            try:
                # A listing has many pages, each of which takes a request.
                return self._reply(ticket, await ask())
            except Exception as error:  # noqa: BLE001  # as above
                failure = classify(error)
            if self._is_final(failure, attempt, store):
                return self._reply(ticket, failure._replace(attempts=attempt))
            await _pause(attempt)

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


class _WrongObjectError(Exception):
    """The answer is about another object than the request."""


def _check_same(
    got: ObjectInfo, pin: ObjectInfo, got_range: tuple[int, int], wanted: tuple[int, int]
) -> None:
    """Compare an answer with what was asked for. Not every server obeys conditions."""
    is_same = got.size == pin.size and tuple(got_range) == wanted
    if got.etag and pin.etag:
        is_same = is_same and got.etag.removeprefix("W/") == pin.etag.removeprefix("W/")
    elif got.mtime and pin.mtime:
        is_same = is_same and got.mtime == pin.mtime
    if not is_same:
        raise _WrongObjectError("the object was replaced")


def _info(meta: Any) -> ObjectInfo:
    changed = meta.get("last_modified")
    seconds = int(changed.timestamp()) if isinstance(changed, datetime) else 0
    etag = canonical_etag(meta.get("e_tag") or "")
    # Listings have no versions, so a version counts only where there is no ETag.
    version = "" if etag else meta.get("version") or ""
    return ObjectInfo(meta["path"], meta["size"], etag, version, seconds)


async def _pause(attempt: int) -> None:
    """Wait before the next attempt: longer each time, and not all at the same time."""
    longest = min(_LONGEST_DELAY, _FIRST_DELAY * 2 ** min(attempt - 1, 10))
    await asyncio.sleep(random.uniform(longest / 2, longest))  # noqa: S311  # no secret


def _without_values(text: str, options: Mapping[str, Any]) -> str:
    """Return a text without the values of options."""
    for value in options.values():
        if isinstance(value, Mapping):
            text = _without_values(text, value)
        elif len(str(value)) > 3:
            text = text.replace(str(value), "...")
    return text.partition("\n\nDebug source")[0]


# ---- the process ----


def main() -> None:
    """Serve the process that started this one; the arguments are those of the client."""
    connection_descriptor, memory_descriptor, parent = map(int, sys.argv[1:4])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    connection = socket.socket(fileno=connection_descriptor)
    connection.setblocking(False)
    memory = mmap.mmap(memory_descriptor, 0)
    try:
        asyncio.run(_serve(connection, memory, parent))
    except (ConnectionError, KeyboardInterrupt):
        pass
    finally:
        os._exit(0)  # threads of the runtime may still read


async def _serve(connection: socket.socket, memory: mmap.mmap, parent: int) -> None:
    watch = asyncio.ensure_future(_watch_parent(parent))
    try:
        await Helper(connection, memory).serve()
    finally:
        watch.cancel()


async def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:  # noqa: ASYNC110  # nothing tells when that changes
        await asyncio.sleep(_PARENT_SECONDS)
    os._exit(0)
