"""How bytes split into records: what any format has to say, and the TFRecord format."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import CorruptRecordError, StaleIndexError, TorchRecIOError, TruncatedFileError
from ..storage.compressed import (
    CompressedFile,
    Compression,
    detect_compression,
    detect_gzip,
    is_record_header,
    read_up_to_damage,
)
from ..storage.local import LocalFile, fingerprint
from .custom_format import find_boundaries

# Called now and then with the bytes of the file and the records done so far. What it raises ends
# the work.
Progress: TypeAlias = Callable[[int, int], None]
Fault: TypeAlias = "tuple[int, type[TorchRecIOError], str]"
_Ints: TypeAlias = "npt.NDArray[np.int64]"

# In place of the end of a stream whose size shows only when it was read.
UNKNOWN_END = 2**63 - 1


@dataclass(frozen=True)
class Scan:
    """Where the records of a stream are.

    Attributes:
        starts: Stream offset of each whole record, with whatever frames it; uint64 ``[n]``.
        end: Stream offset behind the last of them.
        error: What ended the scan early, if anything did.
    """

    starts: npt.NDArray[np.uint64]
    end: int
    error: TorchRecIOError | None


class Cut(NamedTuple):
    """Records that were cut out of their frames.

    Attributes:
        buffer: uint8; holds the records.
        starts: Where each record starts in it; int64 ``[n]``.
        lengths: Bytes of each record; int64 ``[n]``.
        faults: The bad ones: position, error class, reason.
    """

    buffer: npt.NDArray[np.uint8]
    starts: _Ints
    lengths: _Ints
    faults: Sequence[Fault]


class RecordFormat:
    """How files split into records: the base of all formats, and of your own.

    A file is a row of *frames* without gaps, each of which holds one record. A format of your own
    derives from this class, says its :attr:`name`, finds the frames (:meth:`boundaries`), takes the
    record out of a frame (:meth:`record`), and maybe names it (:meth:`key`). All else, the index,
    shuffling, sharing, resuming, comes by itself; see :class:`torchrec_io.RecordFileDataset` and
    docs/formats.md. Objects of it must pickle, for workers that are spawned.

    Attributes:
        name: Says the format and all its parameters: an index that was made by a format of another
            name is not used. Change it when the format changes.
    """

    name: str = ""
    # Bytes of a frame that are not its record's, where that is known before it is read.
    overhead_bytes = 0
    # Whether an index is worth keeping in the cache, once one is built.
    is_kept: bool = True
    # Whether each frame shows by itself that it starts and ends where the index says.
    checks_frames: bool = False
    # What is wrong with a file in which `first_misplaced` finds something.
    misplaced = "no record of that size is where the index says"

    # ---- what a format of your own says ----

    def boundaries(self, file: BufferedReader) -> Iterator[int]:
        """Finds the frames of a file, from front to back.

        Yields ``file.tell()`` or the like: the offset at which the first frame starts, then the
        one at which each frame ends, which is where the next one starts. Bytes before the first
        offset and behind the last belong to no record. Whatever is raised, best a ValueError that
        says the reason, ends the file: the frames before it are read, the rest is lost and
        reported as one error. That a frame ends behind the end of the file is found without help.

        Args:
            file: Gives the decompressed bytes. If the file is compressed, it seeks only forwards.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method boundaries")

    def record(self, frame: memoryview) -> bytes | memoryview:
        """Takes the record out of its frame; by default the whole frame is the record.

        It should raise, best a ValueError that says the reason, if the bytes are no such frame.
        That ends as a :class:`CorruptRecordError`, and is also how an index is found to fit no
        longer where the file was changed and looks the same at both ends.

        Args:
            frame: What lies between two of the boundaries, read-only.
        """
        return frame

    def key(self, path: str, record: int, offset: int) -> str:
        """The key of a record for ``with_key=True``; by default ``"path:offset"``.

        Args:
            path: Of the file.
            record: Number of the record in the file, from 0.
            offset: At which its frame starts, in the decompressed stream.
        """
        del record
        return f"{path}:{offset}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    # ---- what is done for all of some records at once ----

    @property
    def code(self) -> int:
        """What index files have for the name: 32 bits of BLAKE2b of it, never 0."""
        digest = hashlib.blake2b(self.name.encode(), digest_size=4).digest()
        return int.from_bytes(digest, "little") or 1

    def detect(self, file: LocalFile) -> Compression | None:
        """How a file is compressed, by its content: as gzip, or not that anybody could tell."""
        return detect_gzip(file)

    def scan(self, source: LocalFile | CompressedFile, progress: Progress | None = None) -> Scan:
        """Finds every record of a stream."""
        bounds, error = find_boundaries(self.boundaries, source, progress)
        return Scan(bounds[:-1], int(bounds[-1]) if len(bounds) else 0, error)

    def cut(
        self, buffer: npt.NDArray[np.uint8], placed: _Ints, sizes: _Ints, verify_crc: bool
    ) -> Cut:
        """Takes records out of frames in a buffer, and checks them.

        Args:
            buffer: uint8.
            placed: Where the frames start in it; int64 ``[n]``.
            sizes: Bytes of each frame; int64 ``[n]``.
            verify_crc: Whether checksums of data are looked at, if there are any.
        """
        del verify_crc  # a format of one's own looks at what it has
        view = buffer.data.toreadonly()
        records: list[bytes] = []
        faults: list[Fault] = []
        for position, (start, size) in enumerate(zip(placed.tolist(), sizes.tolist(), strict=True)):
            try:
                # Of a number, bytes() would make so many zeros.
                records.append(bytes(memoryview(self.record(view[start : start + size]))))
            except Exception as error:  # noqa: BLE001  # a user's method may raise anything
                records.append(b"")
                faults.append((position, *_fault_of(error)))
        lengths = np.array([len(record) for record in records], np.int64)
        joined = np.frombuffer(b"".join(records), np.uint8)
        return Cut(joined, np.cumsum(lengths) - lengths, lengths, faults)

    def keys(
        self, paths: Sequence[str], records: Sequence[int], offsets: Sequence[int]
    ) -> list[str]:
        """The keys of records; see :meth:`key`."""
        return [
            self.key(path, record, offset)
            for path, record, offset in zip(paths, records, offsets, strict=True)
        ]

    def fingerprint(self, file: LocalFile, size: int) -> int:
        """64 bits that tell a file from others."""
        return fingerprint(file, size)

    def first_misplaced(self, file: LocalFile, starts: _Ints, ends: _Ints) -> int | None:
        """Where the first of some frames should start that does not, or is of another size."""
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            frame = np.frombuffer(file.read(start, end - start), np.uint8)
            placed, sizes = np.array([0]), np.array([len(frame)])
            if len(frame) != end - start or self.cut(frame, placed, sizes, False).faults:
                return int(start)
        return None

    def was_whole(self, starts: _Ints, ends: _Ints, size: int) -> npt.NDArray[np.bool_]:
        """Of which frames enough is left for :meth:`first_misplaced` in a file cut to a size."""
        del starts
        return ends <= size


def _fault_of(error: Exception) -> tuple[type[TorchRecIOError], str]:
    if isinstance(error, TorchRecIOError):
        return type(error), error.reason
    reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return CorruptRecordError, reason


FrameFault: TypeAlias = _core.FrameFault
_FAULTS: dict[FrameFault, tuple[type[TorchRecIOError], str]] = {
    FrameFault.length_crc: (CorruptRecordError, "the record's length does not match its checksum"),
    FrameFault.past_end: (TruncatedFileError, "the record reaches past the end of the file"),
    FrameFault.data_crc: (CorruptRecordError, "the record's data does not match its checksum"),
    FrameFault.truncated_header: (TruncatedFileError, "the file ends inside the header of a record"),
    FrameFault.length_mismatch: (StaleIndexError, "the record has another length than the index says"),
}


class TFRecordFormat(RecordFormat):
    """u64 length, u32 masked CRC-32C of it, data, u32 masked CRC-32C of the data; little-endian."""

    name = "tfrecord"
    header_bytes = _core.FRAME_HEADER_BYTES
    footer_bytes = _core.FRAME_FOOTER_BYTES
    overhead_bytes = header_bytes + footer_bytes
    checks_frames = True

    _WINDOW_BYTES = 1 << 20
    # Where records are larger than this, only their headers are worth reading.
    _SPARSE_WINDOW_BYTES = 1 << 12

    @property
    def code(self) -> int:
        return 0

    def __reduce__(self) -> str:
        return "TFRECORD"  # there is one

    def detect(self, file: LocalFile) -> Compression | None:
        return detect_compression(file)

    def scan(self, source: LocalFile | CompressedFile, progress: Progress | None = None) -> Scan:
        """Finds every record; checks the length and its checksum of each, not the data's."""
        stream_end = source.size if isinstance(source, LocalFile) else UNKNOWN_END
        buffer = np.empty(self._WINDOW_BYTES, np.uint8)
        window = self._WINDOW_BYTES
        found: list[npt.NDArray[np.uint64]] = []
        at = records = 0
        error: TorchRecIOError | None = None
        while error is None:
            got, error = read_up_to_damage(source, at, buffer.data[:window])
            scan = _core.scan_frames(buffer[:got], at, stream_end)
            starts, following = scan.starts, scan.next
            found.append(starts)
            if scan.fault is not None:
                error = self.error_of(scan.fault, source.path, following, buffer[:got])
            elif got == 0:
                break
            elif following == at and error is None:
                error = self.error_of(FrameFault.truncated_header, source.path, at)
            sparse = len(starts) > 0 and following - at > len(starts) * (1 << 18)
            window = self._SPARSE_WINDOW_BYTES if sparse else self._WINDOW_BYTES
            at = following
            if progress is not None:
                records += len(starts)
                progress(source.consumed if isinstance(source, CompressedFile) else at, records)
        return self._finish(source, np.concatenate(found) if found else _NONE, at, error)

    def _finish(
        self,
        source: LocalFile | CompressedFile,
        starts: npt.NDArray[np.uint64],
        end: int,
        error: TorchRecIOError | None,
    ) -> Scan:
        """Gives up the last record if the stream turned out to end inside it."""
        if isinstance(source, CompressedFile) and len(starts) and end > source.decoded:
            end = int(starts[-1])
            starts = starts[:-1]
            if error is None:
                error = TruncatedFileError(
                    _FAULTS[FrameFault.past_end][1], path=source.path, record=len(starts), offset=end
                )
        if error is not None and error.record is None:
            error.record = len(starts)
        return Scan(starts, end, error)

    def error_of(
        self, fault: FrameFault, path: str, offset: int, head: npt.NDArray[np.uint8] | None = None
    ) -> TorchRecIOError:
        """The error for a fault that the native core named; ``head`` is how the stream starts."""
        error_class, reason = _FAULTS[fault]
        if offset == 0 and fault is FrameFault.length_crc and head is not None:
            reason = _what_else(head[:64].tobytes()) or reason + "; is this a TFRecord file?"
        return error_class(reason, path=path, offset=offset)

    def check(
        self,
        buffer: npt.NDArray[np.uint8],
        starts: _Ints,
        lengths: _Ints,
        verify_crc: bool,
    ) -> list[Fault]:
        """Checks framed records in a buffer.

        ``starts`` are where the frames start, ``lengths`` are those of the data. Returns the bad
        ones as (position, error class, reason).
        """
        faults = _core.check_frames(buffer, starts, lengths, verify_crc)
        return [(position, *_FAULTS[fault]) for position, fault in faults]

    def cut(
        self, buffer: npt.NDArray[np.uint8], placed: _Ints, sizes: _Ints, verify_crc: bool
    ) -> Cut:
        lengths = sizes - self.overhead_bytes
        faults = self.check(buffer, placed, lengths, verify_crc)
        return Cut(buffer, placed + self.header_bytes, lengths, faults)

    def keys(
        self, paths: Sequence[str], records: Sequence[int], offsets: Sequence[int]
    ) -> list[str]:
        del records
        return [f"{path}:{offset}" for path, offset in zip(paths, offsets, strict=True)]

    def first_misplaced(self, file: LocalFile, starts: _Ints, ends: _Ints) -> int | None:
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            head = file.read(start, self.header_bytes)
            length = int.from_bytes(head[:8], "little")
            if not is_record_header(head) or length != end - start - self.overhead_bytes:
                return int(start)
        return None

    def was_whole(self, starts: _Ints, ends: _Ints, size: int) -> npt.NDArray[np.bool_]:
        del ends
        return starts + self.header_bytes <= size


_NONE = np.empty(0, np.uint64)
TFRECORD = TFRecordFormat()


def _what_else(head: bytes) -> str | None:
    """Names what people mistake for a TFRecord file."""
    if head.startswith(b"version https://git-lfs"):
        return "this is a git-lfs pointer, not the data it stands for; run 'git lfs pull'"
    if head.startswith((b"\x1f\x8b", b"\x78")):
        return "this looks compressed, and is read as if it were not (compression=None)"
    if head.startswith(b"\x83\xaf\x70\xd1"):
        return "this is a Riegeli file, not a TFRecord file"
    if head[:4].isascii() and head[:4].decode("ascii").isprintable():
        return "this looks like text, not like a TFRecord file"
    return None
