"""The helper process, which makes the requests to object stores.

The runtime of obstore does not survive a fork: a child of a process that has used it hangs. So each
process that loads has a helper of its own, which is started afresh and never forks. It takes
messages from a socket, and writes what it reads to memory that both processes have mapped. It ends
when that socket is closed, and when its parent is gone: a child that the parent forked may still
have the other end.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import mmap
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from .attempts import seconds_after
from .failures import Failure, Kind, RequestError, classify
from .large_uploads import LargeUploads
from .messages import Fetch, StoreAddress
from .object_store import ObjectStore

_Result = TypeVar("_Result")

_PARENT_SECONDS = 1.0  # between two looks at the parent
_REPEATED_BY_OBSTORE = frozenset({"write", "finish", "give_up"})
_TOO_LONG = Failure(Kind.refused, "the server sent more bytes than were asked for")
_TOO_SHORT = Failure(Kind.temporary, "the body ended early")
# obstore reads the body of an error whole. Beyond so much memory, and as much as is shared, this
# process ends.
_MOST_BYTES = 1 << 30


class Helper:
    """The requests of one process.

    Args:
        file: Descriptor of the memory that the process has mapped, too.
        reply: Called with the number of a request, and with its answer.

    Attributes:
        uploads: The objects that are being written in parts.
    """

    def __init__(self, file: int, reply: Callable[[int, Any], None]) -> None:
        self.uploads = LargeUploads()
        self._file = file
        self._reply = reply
        self._stores: dict[tuple[str, str], ObjectStore] = {}  # by root and identity of options
        self._tasks: set[asyncio.Task[Any]] = set()
        self.grow(0)

    def grow(self, memory_bytes: int) -> None:
        """Map the memory, of a new size. Users of the old mapping share the same memory."""
        self._memory = memoryview(mmap.mmap(self._file, memory_bytes))
        _limit_memory(len(self._memory))

    def ask(self, number: int, address: StoreAddress, name: str, *arguments: Any) -> None:
        """Start a request that is not of a range."""

        async def ask(store: ObjectStore) -> Any:
            most_attempts = 1 if name in _REPEATED_BY_OBSTORE else store.most_attempts
            return await _repeat(lambda: getattr(store, name)(*arguments), most_attempts)

        self._start(number, address, ask)

    def fetch(self, number: int, fetch: Fetch) -> None:
        """Start a request of a range."""
        self._start(number, fetch.store, functools.partial(self._fetch, fetch))

    def _start(
        self, number: int, address: StoreAddress, work: Callable[[ObjectStore], Awaitable[Any]]
    ) -> None:
        task = asyncio.ensure_future(self._use(address, work))
        self._tasks.add(task)  # the loop itself may lose it
        task.add_done_callback(functools.partial(self._finish, number))

    async def _use(
        self, address: StoreAddress, work: Callable[[ObjectStore], Awaitable[Any]]
    ) -> Any:
        """Make a request to a store, which is made when it is first used."""
        key = address[:2]
        store = self._stores.get(key)
        if store is None:
            store = ObjectStore(address.root, address.options, self.uploads)
            self._stores[key] = store
        result = await work(store)
        if isinstance(result, Failure) and result.kind is Kind.denied:
            self._stores.pop(key, None)  # the next request finds its credentials again
            return result._replace(tried=store.tried)
        return result

    def _finish(self, number: int, task: asyncio.Task[Any]) -> None:
        """Send the answer to a request."""
        self._tasks.discard(task)
        if task.cancelled():  # the process ends: no answer may look like data
            return
        error = task.exception()
        if isinstance(error, (ImportError, ValueError)):
            self._reply(number, error)
        elif error is not None:  # a mistake of this module must not leave anybody waiting
            self._reply(number, Failure(Kind.refused, type(error).__name__))
        else:
            self._reply(number, task.result())

    async def _fetch(self, fetch: Fetch, store: ObjectStore) -> Failure | None:
        """Fetch a range, resuming inside it after a failure."""
        memory = self._memory[fetch.slot : fetch.slot + fetch.size]
        done = 0

        async def fetch_rest() -> None:
            nonlocal done
            async for chunk in store.chunks(
                fetch.pin, fetch.begin + done, fetch.begin + fetch.size
            ):
                if len(chunk) > fetch.size - done:
                    raise RequestError(_TOO_LONG)
                memory[done : done + len(chunk)] = chunk
                done += len(chunk)
            if done < fetch.size:
                raise RequestError(_TOO_SHORT)

        return await _repeat(fetch_rest, store.most_attempts)


async def _repeat(work: Callable[[], Awaitable[_Result]], most_attempts: int) -> _Result | Failure:
    """Repeat a request until it succeeds; return its result, or the failure of the last attempt."""
    for attempt in itertools.count(1):
        try:
            return await work()
        except Exception as error:  # noqa: BLE001  # obstore has no common class of these
            failure = classify(error)
        if failure.kind is not Kind.temporary or attempt >= most_attempts:
            return failure._replace(attempts=max(attempt, failure.attempts))
        await asyncio.sleep(seconds_after(attempt))
    raise AssertionError


def _limit_memory(shared: int) -> None:
    """Limit the memory of this process that is not shared."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _MOST_BYTES + shared
    soft = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, most))


def main() -> None:
    """Serve the process that started this one, which passes the command-line arguments."""
    connection, memory, parent = map(int, sys.argv[1:4])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it ends where memory is short
    try:
        asyncio.run(_serve(Connection(connection), memory, parent))
    finally:
        os._exit(0)  # threads of the runtime may still read


async def _serve(connection: Connection, file: int, parent: int) -> None:
    """Serve requests until the connection is closed, or the parent is gone."""
    loop = asyncio.get_running_loop()
    has_ended = asyncio.Event()

    def reply(number: int, result: Any) -> None:
        with contextlib.suppress(OSError):  # the connection ends
            connection.send((number, result))

    def receive() -> None:
        try:
            name, *arguments = connection.recv()
        except (EOFError, OSError):
            loop.remove_reader(connection.fileno())
            has_ended.set()
        else:
            getattr(helper, name)(*arguments)

    helper = Helper(file, reply)
    loop.add_reader(connection.fileno(), receive)
    while os.getppid() == parent and not has_ended.is_set():
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(has_ended.wait(), _PARENT_SECONDS)
    await helper.uploads.give_up_all()
