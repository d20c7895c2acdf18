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
_KEPT_BYTES = 1 << 12


class CompressedFile(DecodedStream):
    """The decompressed stream of a compressed file, to be read from front to back.

    Reading decompresses as it proceeds. Only the last bytes are kept, so that a reader can go back
    to the start of a record.

    Args:
        file: Compressed file.
        compression: Compression of the file.
        start: Seek point to start at. Bytes before it cannot be read.
        recorder: Chooses seek points on the way. The file must be seekable.
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
        self._lock = threading.Lock()
        self._inflater = Inflater(file, compression, start, recorder)
        self._decoded = start.stream_offset  # up to here
        self._recent = b""  # the last decoded bytes

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
            if offset < self._decoded - len(self._recent):
                raise ValueError(f"a compressed file is read from front to back, got {offset}")
            done = self._copy_recent(offset, out)
            try:
                # The writer of a pipe may send more only later.
                while done < len(out) and (self.is_seekable or not done) and self._decode_more():
                    done += self._copy_recent(offset + done, out[done:])
            except TorchRecIOError:
                if not done:
                    raise
            return done

    def drop_kept(self, ranges: Ints) -> bool:
        del ranges
        assert self._file.size is not None  # pipes have no caches
        return self._file.drop_kept(np.array([(0, self._file.size, 0)]))

    def close(self) -> None:
        self._file.close()
        self.file_watch = None

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
