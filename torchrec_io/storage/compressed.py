"""The decompressed content of a compressed file, read from front to back."""

from __future__ import annotations

import bisect
import threading

import numpy as np

from ..errors import TorchRecIOError
from .byte_source import ByteBuffer, ByteSource, DecodedStream, Ints
from .compression import Compression
from .inflater import Inflater
from .seek_points import START, SeekPointRecorder

_CHUNK_BYTES = 1 << 18
_KEPT_BYTES = 1 << 12


class CompressedFile(DecodedStream):
    """The decompressed stream of a compressed file, best read from front to back.

    Reading forwards decompresses as it proceeds. Reading back starts again at the last seek point
    before the offset, of those found so far. A pipe can only be read forwards.

    Args:
        file: Compressed file.
        compression: Compression of the file.
        recorder: Chooses seek points on the way. Default: at the starts of members only.
    """

    def __init__(
        self,
        file: ByteSource,
        compression: Compression,
        recorder: SeekPointRecorder | None = None,
    ) -> None:
        self.path = file.path
        self.stamp = file.stamp
        self.is_seekable = file.is_seekable
        self.file_watch = file.file_watch
        self._file = file
        self._compression = compression
        self._recorder = recorder or SeekPointRecorder(finds_blocks=False, makes_checks=False)
        self._lock = threading.Lock()
        self._memory = np.empty(_KEPT_BYTES + _CHUNK_BYTES, np.uint8)
        self._start_before(0)

    @property
    def decoded(self) -> int:
        return self._decoded

    @property
    def file_bytes_read(self) -> int:
        return self._inflater.file_bytes_read

    @property
    def sound_end(self) -> int:
        return self._inflater.sound_end

    def read_into(self, offset: int, out: memoryview) -> int:
        with self._lock:
            self._reach(offset)
            return self._read_forwards(offset, np.frombuffer(out, np.uint8))

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

    def _start_before(self, offset: int) -> None:
        """Start decoding at the last seek point before an offset."""
        points = self._recorder.points
        number = bisect.bisect_right(points, offset, key=lambda point: point.stream_offset)
        start = points[number - 1] if number else START
        recorder = self._recorder if self.is_seekable else None
        self._inflater = Inflater(self._file, self._compression, start, recorder)
        self._decoded = start.stream_offset  # up to here
        self._recent = self._memory[:0]  # the last decoded bytes, if they are known

    def _reach(self, offset: int) -> None:
        """Prepare reading forwards to an offset."""
        recent_from = self._decoded - len(self._recent)
        points = self._recorder.points
        is_after_point = len(points) > 0 and self._decoded < points[-1].stream_offset <= offset
        if self.is_seekable and (offset < recent_from or is_after_point):
            self._start_before(offset)

    def _read_forwards(self, offset: int, out: ByteBuffer) -> int:
        done = self._copy_recent(offset, out)
        # The writer of a pipe may send more only later.
        while done < len(out) and (self.is_seekable or not done) and self._decode_more():
            done += self._copy_recent(offset + done, out[done:])
        return done

    def _decode_more(self) -> bool:
        """Decode more of the stream; return False at its end."""
        kept = self._recent[-_KEPT_BYTES:]  # readers go back to the start of a record
        self._memory[: len(kept)] = kept
        size = self._inflater.read_into(self._memory[len(kept) :])
        self._recent = self._memory[: len(kept) + size]
        self._decoded += size
        return size > 0

    def _copy_recent(self, offset: int, out: ByteBuffer) -> int:
        """Copy bytes of the stream that were decoded last, as far as they are known."""
        skip = offset - (self._decoded - len(self._recent))
        data = self._recent[skip : skip + len(out)] if skip >= 0 else self._recent[:0]
        out[: len(data)] = data
        return len(data)
