"""Objects that are written in parts. Runs in the helper process alone."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

# A part of an object; stores take no smaller ones, except the last.
PART_BYTES = 8 << 20
# Parts that may be on their way at the same time, of all objects.
_MOST_PARTS = 8
# Giving up an upload that nobody will finish may take this long.
_SECONDS_TO_GIVE_UP = 4.0


class _LargeUpload:
    """An object that is being written.

    Attributes:
        file: The file of obstore, which sends whole parts as they come.
        parts: Largest number of its parts that may be on their way.
        turn: Held by the request that uses the file.
    """

    def __init__(self, file: Any) -> None:
        self.file = file
        self.parts = 0
        self.turn = asyncio.Lock()

    async def give_up(self) -> None:
        """Drop the parts that the store has."""
        async with self.turn:
            await self.file.__aexit__(RuntimeError, None, None)


class LargeUploads:
    """The objects that are being written. None of them can be seen before it is finished."""

    def __init__(self) -> None:
        self._open: dict[int, _LargeUpload] = {}

    async def write(self, number: int, client: Any, key: str, data: bytes) -> None:
        """Take a part of an object.

        Args:
            number: Number of the object among those that are written.
            client: Store of obstore.
            key: Name of the object in the store.
            data: The part, of :data:`PART_BYTES`.
        """
        upload = self._upload(number, client, key)
        async with upload.turn:
            await self._make_room(upload)
            upload.parts = min(_MOST_PARTS, upload.parts + 1)
            await upload.file.write(data)

    async def finish(self, number: int, client: Any, key: str, rest: bytes) -> None:
        """Take the rest of an object, which then appears under its name."""
        upload = self._upload(number, client, key)
        async with upload.turn:
            if rest:
                await upload.file.write(rest)
            await upload.file.flush()  # an upload that fails here can still be given up
            await upload.file.close()
            self._open.pop(number, None)

    async def give_up(self, number: int) -> None:
        """Drop an object that was not finished, and the parts of it that the store has."""
        upload = self._open.pop(number, None)
        if upload is not None:
            await asyncio.wait_for(upload.give_up(), _SECONDS_TO_GIVE_UP)

    async def give_up_all(self) -> None:
        """Drop all objects that were not finished."""
        work = (self.give_up(number) for number in list(self._open))
        await asyncio.gather(*work, return_exceptions=True)

    def _upload(self, number: int, client: Any, key: str) -> _LargeUpload:
        if number not in self._open:
            obstore: Any = importlib.import_module("obstore")  # loaded with the first store
            file = obstore.open_writer_async(
                client, key, buffer_size=PART_BYTES, max_concurrency=_MOST_PARTS
            )
            self._open[number] = _LargeUpload(file)
        return self._open[number]

    async def _make_room(self, wanted: _LargeUpload) -> None:
        """Wait until a part more is not too many. Files limit only their own parts."""
        others = [each for each in self._open.values() if each is not wanted and each.parts]
        while others and wanted.parts + 1 + sum(each.parts for each in others) > _MOST_PARTS:
            other = others.pop(0)
            async with other.turn:
                await other.file.flush()
                other.parts = 0
