"""The helper process, as seen by the process that it works for."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import mmap
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from multiprocessing.connection import Connection
from multiprocessing.spawn import get_executable
from queue import SimpleQueue
from typing import Any

import numpy as np

from ... import _core
from ..byte_source import ByteBuffer
from ..stamp import Stamp
from .failures import FetchError, HelperError, RequestError
from .messages import StoreAddress
from .ranges import RangeRequest
from .slots import Slots

_SECONDS_TO_END = 5.0
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from torchrec_io._storage.remote.helper import main; main()"
)


class HelperConnection:
    """A helper process, and a thread of this process that receives its answers.

    Safe to use from several threads. After a fork it can only be dropped.

    Args:
        memory_bytes: Size of the memory that is shared with the helper, for ranges that are
            fetched.
        environment: Number of the environment that the helper gets.

    Attributes:
        environment: Number of the environment that the helper got.
        helper_pid: Process identifier of the helper.
        memory: The memory; uint8.
        slots: The slots of the memory that requests use.
    """

    def __init__(self, memory_bytes: int, environment: int) -> None:
        self.environment = environment
        self._descriptor = _anonymous_file()
        weakref.finalize(self, os.close, self._descriptor).atexit = False
        self.memory = self._map(memory_bytes)
        self.slots = Slots(memory_bytes)
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._answers: dict[int, Future[Any]] = {}  # to come, by the number of the request
        self._failure: str | None = None
        own, other = socket.socketpair()
        with other:
            self._process = _start_helper(other.fileno(), self._descriptor)
        self.helper_pid = self._process.pid
        self._connection = Connection(os.dup(own.fileno()))
        self._sending = threading.Lock()
        ends = (own, self._connection, self._process, os.getpid())
        self._end = weakref.finalize(self, _end_helper, *ends)
        threading.Thread(target=self._receive, name="torchrec_io store", daemon=True).start()

    def ask(
        self, store: StoreAddress, name: str, *arguments: Any, timeout: float | None = None
    ) -> Any:
        """Make a request to a store, and return the answer.

        Args:
            store: The store.
            name: Name of the request, such as ``"head"``; see :class:`ObjectStore`.
            arguments: Arguments of the request.
            timeout: Seconds to wait for the answer. Default: no limit.

        Raises:
            HelperError: If the helper has ended.
            ImportError: If a package is missing.
            RequestError: If the request failed for good.
            TimeoutError: If there is no answer in time.
            ValueError: If the options of the store are not valid.
        """
        return self._start(name, store, *arguments).result(timeout)

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
        waiting = deque(requests)
        running: dict[Future[Any], tuple[RangeRequest, int]] = {}  # with slots
        answered: SimpleQueue[Future[Any]] = SimpleQueue()
        try:
            while waiting or running:
                while waiting:
                    begin, size, _ = waiting[0]
                    slot = self.slots.take(size, is_waiting=not running)
                    if slot is None:
                        break
                    answer = self._start("fetch", store, key, stamp, begin, size, slot)
                    running[answer] = waiting.popleft(), slot
                    answer.add_done_callback(answered.put)
                answer = answered.get()
                (begin, size, copies), slot = running[answer]
                # Not raised by the future: this frame, which the traceback refers to, refers to it.
                error = answer.exception()
                if isinstance(error, RequestError):
                    raise FetchError(error.failure, begin, begin + size)
                if error is not None:
                    raise error
                _core.gather(self.memory[slot : slot + size], copies, out)
                del running[answer]
                self.slots.free(slot, size)
        finally:
            for answer, (request, slot) in running.items():  # the helper may still write to them
                answer.add_done_callback(functools.partial(self._free, slot, request.size))

    def grow(self, memory_bytes: int) -> None:
        """Make the memory at least as large as given."""
        if memory_bytes > len(self.memory):
            self.memory = self._map(memory_bytes)
            self._send(0, "grow", memory_bytes)
            self.slots.grow(memory_bytes)

    def close(self) -> None:
        """End the helper."""
        self._fail("the helper process for remote files was ended")
        self._end()

    def has_failed(self) -> bool:
        """Return whether the helper has ended."""
        return self._failure is not None

    def _start(self, name: str, store: StoreAddress, *arguments: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        with self._lock:
            number = next(self._numbers)
            if self._failure is None:
                self._answers[number] = answer
            else:
                answer.set_exception(HelperError(self._failure))
        if not answer.done():
            self._send(number, name, store, *arguments)
        return answer

    def _free(self, slot: int, size: int, _: object) -> None:
        self.slots.free(slot, size)

    def _send(self, *message: Any) -> None:
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        try:
            with self._sending:
                self._connection.send_bytes(data)
        except OSError as error:
            self._fail(f"the helper process for remote files has ended ({error.strerror})")
        except BaseException:
            self._fail("a message to the helper process was interrupted")
            raise

    def _receive(self) -> None:
        """Pass answers on until the helper has ended."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                number, result = self._connection.recv()
                with self._lock:
                    answer = self._answers.pop(number, None)
                if isinstance(result, Exception) and answer is not None:
                    answer.set_exception(result)
                elif answer is not None:
                    answer.set_result(result)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._fail(
            f"the helper process for remote files has ended (status {self._process.returncode}), "
            "as it does if the answers of a server need too much memory"
        )

    def _fail(self, reason: str) -> None:
        with self._lock:
            self._failure = self._failure or reason
            answers, self._answers = self._answers, {}
        for answer in answers.values():
            answer.set_exception(HelperError(reason))

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


# Answers are received in new memory each time. By default glibc gives it back to the system at once
# and gets it again, page by page, which takes a third of the helper's time in the kernel; and its
# threads keep an arena each. One arena that keeps a little is faster, and smaller.
_KEEP_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(16 << 20),
}


def _start_helper(connection: int, memory: int) -> subprocess.Popen[bytes]:
    """Start a helper process with descriptors of its connection and memory."""
    path = json.dumps([os.fspath(folder) or os.getcwd() for folder in sys.path])
    arguments = map(str, (connection, memory, os.getpid()))
    return subprocess.Popen(  # noqa: S603  # Python itself
        [os.fsdecode(get_executable()), "-c", _PROGRAM, path, *arguments],
        pass_fds=(connection, memory),
        env=_KEEP_MEMORY | os.environ,
        # A program that reads the output of this process need not wait for the helper.
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _end_helper(
    own: socket.socket, connection: Connection, process: subprocess.Popen[bytes], owner: int
) -> None:
    if os.getpid() != owner:
        own.close()
        connection.close()
        process.returncode = 0  # the parent waits for it
        return
    with contextlib.suppress(OSError):
        own.shutdown(socket.SHUT_RDWR)  # wakes the thread that receives
    own.close()
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
