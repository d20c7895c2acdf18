"""Record formats: how files split into records; and the TFRecord format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from typing import TypeAlias

import numpy as np

from .. import _core
from .._storage.byte_source import (
    ByteBuffer,
    ByteSource,
    Offsets,
)
from .._storage.compression import (
    Compression,
    detect_by_magic,
    detect_compression,
    is_record_header,
)
from .._storage.digest import digest, digest_number
from .._storage.local import head_of
from ..errors import (
    CorruptRecordError,
    RecordTooLargeError,
    StaleIndexError,
    TorchRecIOError,
    TruncatedFileError,
)
from .custom_format import find_boundaries, reason_of
from .foreign_files import HEAD_BYTES, foreign_file
from .record_block import RecordBlock
from .stream_window import StreamWindow

# A function that is called now and then with the number of bytes of the file and the number of
# records done so far. An exception that it raises ends the work.
Progress: TypeAlias = Callable[[int, int], None]
# Position of a damaged record, error class and reason.
Fault: TypeAlias = "tuple[int, type[TorchRecIOError], str]"

# The fingerprint of a file covers this much at each of its ends.
_FINGERPRINT_BYTES = 1 << 16


@dataclass(frozen=True)
class ScanResult:
    """Offsets of the records of a stream.

    Attributes:
        starts: Stream offset of each whole record's frame; uint64 ``[n]``.
        end: Stream offset of the end of the last one.
        error: Error that ended the scan early, if any.
    """

    starts: Offsets
    end: int
    error: TorchRecIOError | None

    def up_to(self, stream_offset: int, damage: TorchRecIOError) -> ScanResult:
        """Return the records that end at or before a stream offset; the damage ends the scan."""
        count = int(np.searchsorted(self.starts[1:], np.uint64(stream_offset), side="right"))
        if self.end <= stream_offset:
            count = len(self.starts)
        end = int(self.starts[count]) if count < len(self.starts) else self.end
        error = self.error or damage
        error.record = count
        return ScanResult(self.starts[:count], end, error)


class RecordFormat:
    """Base class of record formats, which describe how files split into records.

    A file is a sequence of *frames* without gaps, and each frame holds one record. To define a
    format, derive a class, set ``name``, and implement :meth:`boundaries` to find the frames.
    Override :meth:`record` to take the record out of a frame, and :meth:`key` to name it. Indexing,
    shuffling, sharding and resuming then work as for TFRecord files; see
    :class:`torchrec_io.RecordFileDataset` and docs/formats.md. Objects of the class must be
    picklable, for workers that are spawned.

    Attributes:
        name: Name of the format and all its parameters. An index made by a format of another name
            is not used. Change it when the format changes.
    """

    name: str = ""
    # Bytes of a frame that do not belong to its record, if that number is fixed.
    overhead_bytes = 0
    # True if a new index is worth saving in the cache.
    is_cached: bool = True
    # True if each frame proves that it starts and ends where the index has it.
    is_self_checking: bool = False

    # ---- methods for formats of your own ----

    def boundaries(self, file: BufferedReader) -> Iterator[int]:
        """Find the frames of a file, from front to back.

        Bytes before the first boundary and after the last one belong to no record. An exception,
        preferably a ValueError with the reason, ends the file: the frames before it can be read,
        and the rest is reported as one error. A frame that ends after the end of the file is
        detected automatically.

        Args:
            file: File of the decompressed bytes. If the data file is compressed, it seeks only
                forwards.

        Yields:
            The offset where the first frame starts, then the offset where each frame ends and the
            next one starts. ``file.tell()`` returns such an offset.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method boundaries")

    def record(self, frame: memoryview) -> bytes | memoryview:
        """Take the record out of its frame. By default the whole frame is the record.

        Raise an exception, preferably a ValueError with the reason, if the bytes are not a frame.
        It is reported as a :class:`CorruptRecordError`. It also shows that an index is stale if the
        file was changed only in the middle.

        Args:
            frame: Bytes between two of the boundaries, read-only.
        """
        return frame

    def key(self, path: str, record: int, offset: int) -> str:
        """Return the key of a record for ``with_key=True``. By default it is ``"path:offset"``.

        Args:
            path: Data file.
            record: Number of the record in the file, from 0.
            offset: Offset of the record's frame in the decompressed stream.
        """
        del record
        return f"{path}:{offset}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    # ---- methods for several records at once ----

    @property
    def code(self) -> int:
        """Code of the name in index files: 32 bits of its BLAKE2b digest, never 0."""
        return int.from_bytes(digest(self.name, size=4), "little") or 1

    def detect(self, file: ByteSource) -> Compression | None:
        """Return ``"gzip"`` if a file is compressed that way. Zlib must be given by the user."""
        return detect_by_magic(head_of(file))

    def scan(self, source: ByteSource, progress: Progress) -> ScanResult:
        """Find all records of a stream.

        Args:
            source: Stream to read.
            progress: Function that is called now and then with the number of bytes of the file and
                the number of records read so far.
        """
        bounds, error = find_boundaries(self.boundaries, source, progress)
        return ScanResult(bounds[:-1], int(bounds[-1]) if len(bounds) else 0, error)

    def extract(self, frames: RecordBlock, verify_crc: bool) -> tuple[RecordBlock, Sequence[Fault]]:
        """Take records out of their frames, and check them.

        Args:
            frames: The frames, as if they were records.
            verify_crc: Whether checksums are compared, if the format has some.

        Returns:
            The records; and position, error class and reason of each damaged one.
        """
        del verify_crc  # a user's method checks what its format has
        if getattr(self.record, "__func__", None) is RecordFormat.record:
            return frames, ()
        records: list[bytes] = []
        faults: list[Fault] = []
        for position in range(len(frames)):
            try:
                # Through a memoryview, because bytes() of an integer would make that many zeros.
                records.append(bytes(memoryview(self.record(frames.view(position).toreadonly()))))
            except TorchRecIOError as error:
                records.append(b"")
                faults.append((position, type(error), error.reason))
            except Exception as error:  # noqa: BLE001  # a user's method may raise anything
                records.append(b"")
                faults.append((position, CorruptRecordError, reason_of(error)))
        lengths = np.array([len(record) for record in records], np.int64)
        joined = np.frombuffer(b"".join(records), np.uint8)
        block = RecordBlock(joined, np.cumsum(lengths) - lengths, lengths, frames.numbers)
        return block, faults

    def fingerprint(self, file: ByteSource, size: int) -> int:
        """Return 64 bits that identify the content of a file: a digest of both its ends.

        Args:
            file: Data file, as stored.
            size: Size of the file in bytes.
        """
        # Both ends at once: each may take a request. A small file is read once.
        length = min(size, _FINGERPRINT_BYTES)
        bounds = (
            [(0, length, 0)]
            if size == length
            else [(0, length, 0), (size - length, length, length)]
        )
        ends = np.zeros((len(bounds), length), np.uint8)
        file.read_ranges(np.array(bounds), ends.reshape(-1))
        return digest_number(ends[0], ends[-1])

    def covers(self, before: int, after: int) -> bool:
        """Return whether the records of an intact file may leave out bytes at its ends.

        Args:
            before: Number of bytes of the stream before the first record.
            after: Number of bytes of the stream after the last record.
        """
        del before, after  # a user's format may have a header and a footer of any size
        return True


FrameFault: TypeAlias = _core.FrameFault
_FAULTS: dict[FrameFault, tuple[type[TorchRecIOError], str]] = {
    FrameFault.length_crc: (CorruptRecordError, "the record's length does not match its checksum"),
    FrameFault.past_end: (TruncatedFileError, "the record reaches past the end of the file"),
    FrameFault.data_crc: (CorruptRecordError, "the record's data does not match its checksum"),
    FrameFault.truncated_header: (
        TruncatedFileError,
        "the file ends inside the header of a record",
    ),
    FrameFault.length_mismatch: (
        StaleIndexError,
        "the record's length differs from the one in the index",
    ),
    FrameFault.too_large: (
        RecordTooLargeError,
        "the record is larger than max_record_bytes",
    ),
}


class TFRecordFormat(RecordFormat):
    """The TFRecord format: frames of a length, its checksum, data, and the data's checksum.

    The length is a u64, the checksums are u32 masked CRC-32C, all little-endian.
    """

    name = "tfrecord"
    header_bytes = _core.FRAME_HEADER_BYTES
    footer_bytes = _core.FRAME_FOOTER_BYTES
    overhead_bytes = header_bytes + footer_bytes
    is_self_checking = True

    # Where records are larger than this, only their headers are worth reading.
    _SPARSE_WINDOW_BYTES = 1 << 12

    @property
    def code(self) -> int:
        return 0

    def __reduce__(self) -> str:
        return "TFRECORD"  # pickled by name: there is only one object

    def detect(self, file: ByteSource) -> Compression | None:
        return detect_compression(head_of(file))

    def scan(
        self, source: ByteSource, progress: Progress, *, verify_crc: bool = True
    ) -> ScanResult:
        """Find all records. The checksums of data are never compared."""
        window = StreamWindow(source)
        found = [np.empty(0, np.uint64)]
        records = 0
        fault: FrameFault | None = None
        is_whole = True  # False if the stream ends inside of the last record
        at_once: int | None = None
        header = self.header_bytes
        while fault is None and is_whole:
            if len(window.content) < header and not window.fill(header, at_once):
                break
            scan = _core.scan_frames(window.content, window.at, window.stream_end, verify_crc)
            starts, fault, size = scan.starts, scan.fault, scan.next - window.at
            found.append(starts)
            records += len(starts)
            is_whole = window.skip(size)
            at_once = self._SPARSE_WINDOW_BYTES if size > len(starts) * (1 << 18) > 0 else None
            progress(window.file_bytes_read, records)
        starts, end = np.concatenate(found), window.at
        if is_whole:
            error = self.error_at_end(window, fault or FrameFault.truncated_header)
        else:
            starts, end, error = starts[:-1], int(starts[-1]), window.damage
            if error is None:
                head = np.frombuffer(head_of(source), np.uint8) if end == 0 else None
                error = self.error_of(FrameFault.past_end, source.path, end, head)
        if error is not None and error.record is None:
            error.record = len(starts)
        return ScanResult(starts, end, error)

    def error_at_end(self, window: StreamWindow, fault: FrameFault) -> TorchRecIOError | None:
        """Return why no frame follows in a stream; None if it ends after a whole frame.

        Args:
            window: Window of the stream, from the end of the last frame on.
            fault: Fault of what follows.
        """
        if fault is not FrameFault.length_crc and window.damage is not None:
            return window.damage
        if len(window.content) == 0:
            return None
        return self.error_of(fault, window.source.path, window.at, window.content)

    def error_of(
        self, fault: FrameFault, path: str, offset: int, head: ByteBuffer | None = None
    ) -> TorchRecIOError:
        """Return the error for a fault that the native core found.

        Args:
            fault: Fault of the frame.
            path: Data file.
            offset: Stream offset of the fault.
            head: Bytes at the offset, to recognize other kinds of files.
        """
        error_class, reason = _FAULTS[fault]
        has_length = fault in (FrameFault.length_crc, FrameFault.past_end)
        if offset == 0 and has_length and head is not None:
            start = head[:HEAD_BYTES].tobytes()
            if not is_record_header(start):  # past_end without verify_crc
                if (foreign := foreign_file(start)) is not None:
                    return CorruptRecordError(foreign, path=path, offset=0)
                reason += "; is this a TFRecord file?"
        return error_class(reason, path=path, offset=offset)

    def check(self, block: RecordBlock, verify_crc: bool) -> list[Fault]:
        """Check records in a buffer that has their whole frames.

        Args:
            block: The records.
            verify_crc: Whether checksums are compared, those of lengths and of data.

        Returns:
            Position, error class and reason of each damaged record.
        """
        starts = block.starts - self.header_bytes
        faults = _core.check_frames(block.buffer, starts, block.lengths, verify_crc)
        return [(position, *_FAULTS[fault]) for position, fault in faults]

    def extract(self, frames: RecordBlock, verify_crc: bool) -> tuple[RecordBlock, Sequence[Fault]]:
        starts, lengths = frames.starts + self.header_bytes, frames.lengths - self.overhead_bytes
        block = RecordBlock(frames.buffer, starts, lengths, frames.numbers)
        return block, self.check(block, verify_crc)

    def covers(self, before: int, after: int) -> bool:
        return before == after == 0


TFRECORD = TFRecordFormat()
