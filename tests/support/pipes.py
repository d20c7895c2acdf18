"""FIFOs written by a thread that never blocks a test."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def feeding(path: Path, pieces: Iterable[bytes]) -> Iterator[Path]:
    """Create a FIFO that provides these pieces, in order, to its first reader."""
    os.mkfifo(path)
    thread = threading.Thread(target=_write, args=(path, pieces), daemon=True)
    thread.start()
    try:
        yield path
    finally:
        # A writer without a reader still waits for one.
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        os.close(reader)
        thread.join(30)
        assert not thread.is_alive()


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    parts = iter(pieces)
    descriptor = os.open(path, os.O_WRONLY)
    try:
        for piece in parts:
            done = 0
            while done < len(piece):
                done += os.write(descriptor, piece[done:])
    except BrokenPipeError:
        pass
    finally:
        os.close(descriptor)
