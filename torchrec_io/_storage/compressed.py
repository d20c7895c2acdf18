"""The decompressed content of a compressed file, read from front to back."""

from __future__ import annotations

import threading

import numpy as np

from ..errors import TorchRecIOError
from .byte_source import ByteSource, DecodedStream, Ints
from .compression import Compression
from .inflater import Inflater
from .seek_points import START, SeekPoint, SeekPointRecorder

_CHUNK_BYTES = 1 << 18
# Readers go back to the start of a record.
_KEPT_BYTES = 1 << 12


class CompressedFile(DecodedStream):
    """The decompressed stream of a compressed file, to be read from front to back.

    Reading forwards decompresses as it proceeds. The last bytes are kept. Reading further back
    starts again at the start. A pipe can only be read forwards.

    Args:
        file: Compressed file.
        compression: Compression of the file.
        start: Seek point to start at. Bytes before it cannot be read.
        recorder: Chooses seek points on the way.
    """

    def __init__(
        self,
        file: ByteSource,
        compression: Compression,
        start: SeekPoint = START,
        recorder: SeekPointRecorder | None = None,
    ) -> None:
        self.path = file.path
        self.stamp = file.stamp
        self.is_seekable = file.is_seekable
        self.file_watch = file.file_watch
        self._file = file
        self._compression = compression
        self._start = start
        self._recorder = recorder if file.is_seekable else None
        self._lock = threading.Lock()
        self._begin()

    @property
    def decoded(self) -> int:
        return self._decoded

    @property
    def file_bytes_read(self) -> int:
        return self._inflater.file_bytes_read

    @property
    def valid_end(self) -> int:
        return self._inflater.valid_end

    def read_into(self, offset: int, out: memoryview) -> int:
        with self._lock:
            if self.is_seekable and offset < self._decoded - len(self._recent):
                self._begin()
            done = self._copy_recent(offset, out)
            # The writer of a pipe may send more only later.
            while done < len(out) and (self.is_seekable or not done) and self._decode_more():
                done += self._copy_recent(offset + done, out[done:])
            return done

    def read_before_damage(
        self, offset: int, out: memoryview
    ) -> tuple[int, TorchRecIOError | None]:
        try:
            return self.read_into(offset, out), None
        except TorchRecIOError as damage:
            # Bytes are copied to ``out`` as they are decoded, so those before the damage are there.
            return min(max(self._decoded - offset, 0), len(out)), damage

    def drop_kept(self, ranges: Ints) -> bool:
        del ranges
        assert self._file.size is not None  # pipes have no caches
        return self._file.drop_kept(np.array([(0, self._file.size, 0)]))

    def close(self) -> None:
        self._file.close()
        self.file_watch = None

    def _begin(self) -> None:
        """Start decoding at the start."""
        self._inflater = Inflater(self._file, self._compression, self._start, self._recorder)
        self._decoded = self._start.stream_offset  # up to here
        self._recent = b""  # the last decoded bytes

    def _decode_more(self) -> bool:
        """Decode more of the stream; return False at its end."""
        data = self._inflater.read(_CHUNK_BYTES)
        self._recent = self._recent[-_KEPT_BYTES:] + data
        self._decoded += len(data)
        return len(data) > 0

    def _copy_recent(self, offset: int, out: memoryview) -> int:
        """Copy bytes of the stream that were decoded last, as far as they are known."""
        skip = offset - (self._decoded - len(self._recent))
        data = memoryview(self._recent)[skip : skip + len(out)] if skip >= 0 else b""
        out[: len(data)] = data
        return len(data)
