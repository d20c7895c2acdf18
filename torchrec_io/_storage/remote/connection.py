"""The helper process, as seen by the process that it works for."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import socket
import subprocess
import sys
import threading
import weakref
from multiprocessing.connection import Connection
from multiprocessing.spawn import get_executable
from typing import Any

from .client import Client

_SECONDS_TO_END = 5.0
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from torchrec_io._storage.remote.helper import main; main()"
)


class HelperConnection(Client):
    """A helper process, and a thread of this process that receives its answers.

    Args:
        memory_bytes: Size of the memory.
        environment: Number of the environment that the helper gets.

    Attributes:
        helper_pid: Process identifier of the helper.
    """

    def __init__(self, memory_bytes: int, environment: int = 0) -> None:
        super().__init__(memory_bytes, environment)
        own, other = socket.socketpair()
        with other:
            self._process = _start_helper(other.fileno(), self._descriptor)
        self.helper_pid = self._process.pid
        self._connection = Connection(os.dup(own.fileno()))
        self._sending = threading.Lock()
        ends = (own, self._connection, self._process, os.getpid())
        self._end = weakref.finalize(self, _end_helper, *ends)
        threading.Thread(target=self._receive, name="torchrec_io store", daemon=True).start()

    def send(self, name: str, *arguments: Any) -> None:
        message = pickle.dumps((name, *arguments), pickle.HIGHEST_PROTOCOL)
        try:
            with self._sending:
                self._connection.send_bytes(message)
        except OSError as error:
            self._fail(f"the helper process for remote files has ended ({error.strerror})")
        except BaseException:
            self._fail("a message to the helper process was interrupted")
            raise

    def close(self) -> None:
        self._fail("the helper process for remote files was ended")
        self._end()

    def close_in_child(self) -> None:
        detached = self._end.detach()
        if detached is not None:
            _end_helper(*detached[2])

    def _receive(self) -> None:
        """Pass answers on until the helper has ended."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._answer(*self._connection.recv())
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._fail(
            f"the helper process for remote files has ended (status {self._process.returncode}), "
            "as it does if the answers of a server need too much memory"
        )


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
