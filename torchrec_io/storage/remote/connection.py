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
from collections.abc import Iterable, Sequence
from multiprocessing.spawn import get_executable
from typing import Any

from .client import Client, Ticket
from .messages import frame_of, take_frames

_RECEIVE_BYTES = 1 << 18
_SECONDS_TO_END = 5.0
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from torchrec_io.storage.remote.helper import main; main()"
)


class HelperConnection(Client):
    """A helper process and the memory that it shares with this process.

    No thread of this process belongs to the helper: of the threads that wait for answers, one
    receives those of all.

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
        self._has_receiver = False
        self._received = bytearray()
        self._end = weakref.finalize(self, _end_helper, self._socket, self._process, os.getpid())

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

    def wait(self, tickets: Iterable[Ticket]) -> None:
        for ticket in tickets:
            while not ticket.is_done:
                self._wait_or_receive(ticket)

    def close(self) -> None:
        self._fail("the helper process for remote files was ended")
        self._end()

    def forget(self) -> None:
        detached = self._end.detach()
        if detached is not None:
            _end_helper(*detached[2])

    def _wait_or_receive(self, ticket: Ticket) -> None:
        """Wait while another thread receives, or receive until an answer is there."""
        is_receiver = False
        try:
            with self._condition:
                self._check()
                if ticket.is_done:
                    return
                if self._has_receiver:
                    self._condition.wait()
                    return
                # In this order: Ctrl-C may come at any point, and others must not wait forever.
                is_receiver = True
                self._has_receiver = True
            self._receive_until(ticket)
        finally:
            if is_receiver:
                with self._condition:
                    self._has_receiver = False
                    self._condition.notify_all()

    def _receive_until(self, ticket: Ticket) -> None:
        """Receive answers until that of a ticket is there."""
        try:
            while not ticket.is_done:
                data = self._socket.recv(_RECEIVE_BYTES)
                if not data:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        self._process.wait(1.0)
                    status = self._process.returncode
                    self._fail(
                        f"the helper process for remote files has ended (status {status}), as it "
                        "does if the answers of a server need too much memory"
                    )
                    return
                self._received += data
                self._answer(itertools.chain.from_iterable(take_frames(self._received)))
        except OSError as error:
            self._fail(f"the helper process for remote files has ended ({error.strerror})")
        except BaseException:
            # Ctrl-C may have come between a read and what is done with it.
            self._fail("waiting for the helper process was interrupted")
            raise


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
