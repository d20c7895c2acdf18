"""The helper process, which makes the requests to object stores.

The runtime of obstore does not survive a fork: a child of a process that has used it hangs. So each
process that loads has a helper of its own, which is started afresh and never forks. It takes
messages from a socket, and writes what it reads to memory that both processes have mapped. It ends
when that socket is closed, and when its parent is gone: a child that the parent forked may still
have the other end.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from .attempts import repeat
from .failures import Failure, Kind, RequestError, classify
from .large_uploads import LargeUploads
from .messages import StoreAddress
from .object_store import ObjectStore

_PARENT_SECONDS = 1.0  # between two looks at the parent
# Requests at the same time, each of which waits in a thread: ranges, and others.
_THREADS = 128
_STACK_BYTES = 1 << 20
_UPLOADS = frozenset({"write", "finish", "give_up"})  # which obstore itself tries again
_TOO_LONG = Failure(Kind.refused, "the server sent more bytes than were asked for")
_TOO_SHORT = Failure(Kind.temporary, "the body ended early")
# obstore reads the body of an error whole. Beyond so much memory, and as much as is shared, this
# process ends.
_MOST_BYTES = 1 << 30


class Helper:
    """The requests of one process.

    Args:
        connection: Connection to the process.
        file: Descriptor of the memory that the process has mapped, too.

    Attributes:
        uploads: The objects that are being written in parts.
    """

    def __init__(self, connection: Connection, file: int) -> None:
        self.uploads = LargeUploads()
        self._connection = connection
        self._sending = threading.Lock()
        self._file = file
        self._stores: dict[tuple[str, str], ObjectStore] = {}  # by root and identity of options
        self._grow(0)

    def serve(self) -> None:
        """Answer messages until the connection is closed."""
        pool = ThreadPoolExecutor(_THREADS)
        with contextlib.suppress(EOFError, OSError):
            while True:
                number, name, *arguments = self._connection.recv()
                if name == "grow":
                    self._grow(*arguments)
                else:
                    pool.submit(self._answer, number, name, *arguments)

    def _grow(self, memory_bytes: int) -> None:
        """Map the memory, of a new size. Users of the old mapping share the same memory."""
        self._memory = memoryview(mmap.mmap(self._file, memory_bytes))
        _limit_memory(len(self._memory))

    def _answer(self, number: int, name: str, address: StoreAddress, *arguments: Any) -> None:
        """Make a request, and send its result or its error."""
        result: Any
        try:
            store = self._store(address)
            if name == "fetch":
                key, stamp, begin, size, slot = arguments
                chunks = functools.partial(store.chunks, key, stamp)
                work = _filling(self._memory[slot : slot + size], begin, chunks)
            elif name in _UPLOADS:
                work = functools.partial(getattr(self.uploads, name), store, *arguments)
            else:
                work = functools.partial(getattr(store, name), *arguments)
            most = 1 if name in _UPLOADS else store.most_attempts
            result = repeat(work, most, classify)
        except RequestError as error:
            result = error
            if error.failure.kind is Kind.denied:
                self._stores.pop(address[:2], None)  # the next request finds its credentials again
                result = RequestError(error.failure._replace(tried=store.tried))
        except (ImportError, ValueError) as error:
            result = error
        except BaseException as error:  # noqa: BLE001  # nobody must be left waiting
            result = RequestError(Failure(Kind.refused, type(error).__name__))
        with self._sending, contextlib.suppress(OSError):  # the connection ends
            self._connection.send((number, result))

    def _store(self, address: StoreAddress) -> ObjectStore:
        """Return a store, which is made when it is first used."""
        store = self._stores.get(address[:2])
        if store is None:
            store = ObjectStore(address.root, address.options)
            self._stores[address[:2]] = store
        return store


def _filling(
    memory: memoryview, begin: int, chunks: Callable[[int, int], Iterator[memoryview]]
) -> Callable[[], None]:
    """Return a function that fetches a range, and that resumes inside it when called again.

    Args:
        memory: Memory for the range.
        begin: First byte of the range.
        chunks: Function that yields the bytes between two offsets as they arrive.
    """
    done = 0

    def fetch_rest() -> None:
        nonlocal done
        for chunk in chunks(begin + done, begin + len(memory)):
            if len(chunk) > len(memory) - done:
                raise RequestError(_TOO_LONG)
            memory[done : done + len(chunk)] = chunk
            done += len(chunk)
        if done < len(memory):
            raise RequestError(_TOO_SHORT)

    return fetch_rest


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
    threading.stack_size(_STACK_BYTES)
    helper = Helper(Connection(connection), memory)

    def end_with_parent() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_SECONDS)
        end()

    def end() -> None:
        helper.uploads.give_up_all()
        os._exit(0)  # threads may still read

    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        helper.serve()
    finally:
        end()
