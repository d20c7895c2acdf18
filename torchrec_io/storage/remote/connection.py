"""The helper process, as seen by the process that it works for."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from multiprocessing.spawn import get_executable
from typing import Any

from .client import Client
from .messages import frame_of, take_frames

_RECEIVE_BYTES = 1 << 18
_SECONDS_TO_END = 5.0
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from torchrec_io.storage.remote.helper import main; main()"
)


class HelperConnection(Client):
    """A helper process, and a thread of this process that receives its answers.

    Args:
        memory_bytes: Size of the memory.

    Attributes:
        helper_pid: Process identifier of the helper.
    """

    def __init__(self, memory_bytes: int) -> None:
        super().__init__(memory_bytes)
        self._socket, self._process = _start_helper(self._file.descriptor)
        self.helper_pid = self._process.pid
        self._sending = threading.Lock()
        self._end = weakref.finalize(self, _end_helper, self._socket, self._process, os.getpid())
        threading.Thread(target=self._receive, name="torchrec_io store", daemon=True).start()

    def send(self, messages: Sequence[tuple[Any, ...]]) -> None:
        frame = frame_of(list(messages))
        try:
            with self._sending:
                self._socket.sendall(frame)
        except OSError as error:
            self._fail(f"the helper process for remote files has ended ({error.strerror})")
        except BaseException:
            self._fail("a message to the helper process was interrupted")
            raise
        self._check()

    def close(self) -> None:
        self._fail("the helper process for remote files was ended")
        self._end()

    def forget(self) -> None:
        detached = self._end.detach()
        if detached is not None:
            _end_helper(*detached[2])

    def _receive(self) -> None:
        """Pass answers on until the helper has ended."""
        received = bytearray()
        reason = ""
        try:
            while data := self._socket.recv(_RECEIVE_BYTES):
                received += data
                self._answer(itertools.chain.from_iterable(take_frames(received)))
        except OSError as error:
            reason = f"({error.strerror})"
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        reason = reason or (
            f"(status {self._process.returncode}), as it does if the answers of a server need too "
            "much memory"
        )
        self._fail(f"the helper process for remote files has ended {reason}")


# Answers are received in new memory each time. By default glibc gives it back to the system at once
# and gets it again, page by page, which takes a third of the helper's time in the kernel; and its
# threads keep an arena each. One arena that keeps a little is faster, and smaller.
_KEEP_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(16 << 20),
}


def _start_helper(memory: int) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start a helper process; return the socket to it, and the process."""
    own, other = socket.socketpair()
    with other:
        descriptors = (other.fileno(), memory)
        path = json.dumps([os.fspath(folder) or os.getcwd() for folder in sys.path])
        arguments = [*map(str, descriptors), str(os.getpid())]
        process = subprocess.Popen(  # noqa: S603  # Python itself
            [os.fsdecode(get_executable()), "-c", _PROGRAM, path, *arguments],
            pass_fds=descriptors,
            env=_KEEP_MEMORY | os.environ,
            # A program that reads the output of this process need not wait for the helper.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    return own, process


def _end_helper(connection: socket.socket, process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() != owner:
        connection.close()
        process.returncode = 0  # the parent waits for it
        return
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)  # wakes a thread that receives
    connection.close()
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
