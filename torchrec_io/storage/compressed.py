"""The decompressed content of a gzip or zlib file as a byte source."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable

from ..errors import TorchRecIOError
from .byte_source import ByteSource
from .compression import Compression
from .inflater import Inflater
from .local import LocalFile

_CHUNK_BYTES = 1 << 18
_RECENT_CHUNKS = 16
# Starting again at a member and decoding up to this much is cheaper than a temporary file.
_WORTH_REPEATING_BYTES = 1 << 20


class CompressedFile(ByteSource):
    """The decompressed stream of a gzip or zlib file, readable at any offset.

    Reading forwards decompresses as it proceeds. Reading far back, as in a shuffled order,
    decompresses the whole file once into an unnamed temporary file, which is read from then on. A
    pipe can only be read forwards.

    Args:
        file: Compressed file.
        compression: Compression of the file.
        restarts: Pairs ``(stream offset, file offset)`` where decompression can start.
    """

    def __init__(
        self, file: ByteSource, compression: Compression, restarts: Iterable[tuple[int, int]] = ()
    ) -> None:
        self.path = file.path
        self.stamp = file.stamp
        self.is_seekable = file.is_seekable
        self.file_watch = file.file_watch
        self._file = file
        self._compression = compression
        self._known_restarts = sorted(restarts)
        self._lock = threading.Lock()
        self._temporary: LocalFile | None = None  # all of the stream
        self._damage: TorchRecIOError | None = None  # after the content of the temporary file
        self._start_at(0, 0)

    @property
    def size(self) -> None:
        return None

    @property
    def restarts(self) -> list[tuple[int, int]]:
        return self._inflater.restarts

    def read_into(self, offset: int, out: memoryview) -> int:
        with self._lock:
            if self._temporary is None and not self._reach(offset):
                self._decompress_to_temporary()
            if self._temporary is not None:
                got = self._temporary.read_into(offset, out)
                if got < len(out) and self._damage is not None:
                    raise self._damage
                return got
            return self._read_forwards(offset, out)

    def read_before_damage(
        self, offset: int, out: memoryview
    ) -> tuple[int, TorchRecIOError | None]:
        try:
            return self.read_into(offset, out), None
        except TorchRecIOError as damage:
            # Bytes are copied to ``out`` as they are decoded, so those before the damage are there.
            return min(max(self._decoded - offset, 0), len(out)), damage

    def find_size(
        self, progress: Callable[[int], None] | None = None
    ) -> tuple[int, TorchRecIOError | None]:
        buffer = memoryview(bytearray(_CHUNK_BYTES))
        while True:
            got, damage = self.read_before_damage(self._decoded, buffer)
            if damage is not None or got == 0:
                return self._decoded, damage
            if progress is not None:
                progress(self._inflater.file_bytes_read)

    def file_bytes_read(self, offset: int) -> int:
        del offset
        return self._inflater.file_bytes_read

    def close(self) -> None:
        self._file.close()
        self.file_watch = None

    def _start_at(self, stream_offset: int, file_offset: int) -> None:
        self._inflater = Inflater(self._file, self._compression, stream_offset, file_offset)
        self._decoded = stream_offset  # up to here
        self._recent: deque[tuple[int, bytes]] = deque(maxlen=_RECENT_CHUNKS)

    def _reach(self, offset: int) -> bool:
        """Prepare reading forwards to an offset; return False if that would be too slow."""
        restart = max((r for r in self._known_restarts if r[0] <= offset), default=(0, 0))
        recent_from = self._recent[0][0] if self._recent else self._decoded
        if recent_from <= offset and restart[0] <= self._decoded:
            return True
        if offset - restart[0] > _WORTH_REPEATING_BYTES and offset < recent_from:
            return False
        self._start_at(*restart)
        return True

    def _read_forwards(self, offset: int, out: memoryview) -> int:
        done = 0
        for at, chunk in self._recent:
            if at <= offset + done < at + len(chunk) and done < len(out):
                done += _copy(chunk[offset + done - at :], out[done:])
        while done < len(out):
            if done and not self.is_seekable:
                break  # the writer may send more only later
            chunk = self._inflater.read(_CHUNK_BYTES)
            if not chunk:
                break
            self._recent.append((self._decoded, chunk))
            self._decoded += len(chunk)
            if self._decoded > offset + done:
                done += _copy(chunk[offset + done - self._decoded + len(chunk) :], out[done:])
        return done

    def _decompress_to_temporary(self) -> None:
        inflater = Inflater(self._file, self._compression)
        with tempfile.NamedTemporaryFile(prefix="torchrec_io-") as file:
            try:
                while chunk := inflater.read(_CHUNK_BYTES):
                    file.write(chunk)
                file.flush()
            except TorchRecIOError as damage:
                self._damage = damage
                file.flush()
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise
                raise OSError(
                    error.errno,
                    f"{os.strerror(error.errno)} for the decompressed content in "
                    f"{tempfile.gettempdir()}: set TMPDIR to a folder with more space, or read the "
                    "file in its order",
                    self.path,
                ) from None
            self._temporary = LocalFile(file.name)
        self._recent.clear()


def _copy(data: bytes, out: memoryview) -> int:
    size = min(len(data), len(out))
    out[:size] = data[:size]
    return size
