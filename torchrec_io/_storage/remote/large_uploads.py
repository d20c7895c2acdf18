"""Objects that are written in parts. Runs in the helper process alone."""

from __future__ import annotations

import importlib
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from .messages import PART_BYTES, SECONDS_TO_GIVE_UP
from .object_store import ObjectStore

# Parts that may be on their way at the same time, of all objects.
_MOST_PARTS = 8


class LargeUploads:
    """The objects that are being written. None of them can be seen before it is finished."""

    def __init__(self) -> None:
        self._files: dict[int, Any] = {}  # files of obstore, which send whole parts as they come
        self._sending: list[Any] = []  # one of them for each part that may be on its way
        self._lock = threading.Lock()  # held while files of `_sending` are used

    def write(self, store: ObjectStore, key: str, number: int, data: bytes) -> None:
        """Take a part of an object.

        Args:
            store: Its store.
            key: Name of the object in the store.
            number: Number of the object among those that are written.
            data: The part, of :data:`PART_BYTES`.
        """
        file = self._file(store, key, number)
        with self._lock:
            if len(self._sending) == _MOST_PARTS:  # a file limits only its own parts
                for each in self._sending:
                    each.flush()
                self._sending = []
            self._sending.append(file)
            file.write(data)

    def finish(self, store: ObjectStore, key: str, number: int, rest: bytes) -> None:
        """Take the rest of an object, which then appears under its name."""
        file = self._file(store, key, number)
        self._release(file)
        if rest:
            file.write(rest)
        file.flush()  # an upload that fails here can still be given up
        file.close()
        self._files.pop(number, None)

    def give_up(self, _: ObjectStore | None, number: int) -> None:
        """Drop an object that was not finished, and the parts of it that the store has."""
        file = self._files.pop(number, None)
        if file is not None:
            self._release(file)
            file.__exit__(RuntimeError, None, None)

    def give_up_all(self) -> None:
        """Drop all objects that were not finished."""
        pool = ThreadPoolExecutor(_MOST_PARTS)
        wait(
            [pool.submit(self.give_up, None, number) for number in [*self._files]],
            SECONDS_TO_GIVE_UP,
        )

    def _release(self, file: Any) -> None:
        """Wait until no other object flushes a file."""
        with self._lock:
            self._sending = [each for each in self._sending if each is not file]

    def _file(self, store: ObjectStore, key: str, number: int) -> Any:
        if number not in self._files:
            obstore: Any = importlib.import_module("obstore")  # loaded with the first store
            self._files[number] = obstore.open_writer(
                store.writable, key, buffer_size=PART_BYTES, max_concurrency=_MOST_PARTS
            )
        return self._files[number]
