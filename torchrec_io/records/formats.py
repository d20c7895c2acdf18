"""How bytes split into records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import CorruptRecordError, StaleIndexError, TorchRecIOError, TruncatedFileError
from .compressed import CompressedFile, read_up_to_damage
from .storage import LocalFile

# Called now and then with the bytes of the file and the records done so far. What it raises ends
# the work.
Progress: TypeAlias = Callable[[int, int], None]

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


class RecordFormat(Protocol):
    """How a stream of bytes splits into records.

    Attributes:
        name: For people.
        code: For index files; see docs/index-format.md.
        header_bytes: Bytes before a record's data.
        footer_bytes: Bytes behind it.
    """

    name: str
    code: int
    header_bytes: int
    footer_bytes: int

    def scan(self, source: LocalFile | CompressedFile, progress: Progress | None = None) -> Scan:
        """Finds every record of a stream."""

    def check(
        self,
        buffer: npt.NDArray[np.uint8],
        starts: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
        verify_crc: bool,
    ) -> list[tuple[int, type[TorchRecIOError], str]]:
        """Checks framed records in a buffer.

        ``starts`` are where the frames start, ``lengths`` are those of the data. Returns the bad
        ones as (position, error class, reason).
        """


_FAULTS: dict[str, tuple[type[TorchRecIOError], str]] = {
    "length_crc": (CorruptRecordError, "the record's length does not match its checksum"),
    "past_end": (TruncatedFileError, "the record reaches past the end of the file"),
    "data_crc": (CorruptRecordError, "the record's data does not match its checksum"),
    "cut_header": (TruncatedFileError, "the file ends inside the header of a record"),
    "other_length": (StaleIndexError, "the record has another length than the index says"),
}


class TFRecordFormat:
    """u64 length, u32 masked CRC-32C of it, data, u32 masked CRC-32C of the data; little-endian."""

    name = "tfrecord"
    code = 0
    header_bytes = 12
    footer_bytes = 4

    _WINDOW_BYTES = 1 << 20
    # Where records are larger than this, only their headers are worth reading.
    _SPARSE_WINDOW_BYTES = 1 << 12

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
            starts, following, fault = _core.scan_frames(buffer[:got], at, stream_end)
            found.append(starts)
            if fault:
                error = self.error_of(fault, source.path, following, buffer[:got])
            elif got == 0:
                break
            elif following == at and error is None:
                error = self.error_of("cut_header", source.path, at)
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
                    _FAULTS["past_end"][1], path=source.path, record=len(starts), offset=end
                )
        if error is not None and error.record is None:
            error.record = len(starts)
        return Scan(starts, end, error)

    def error_of(
        self, fault: str, path: str, offset: int, head: npt.NDArray[np.uint8] | None = None
    ) -> TorchRecIOError:
        """The error for a fault that the native core named; ``head`` is how the stream starts."""
        error_class, reason = _FAULTS[fault]
        if offset == 0 and fault == "length_crc" and head is not None:
            reason = _what_else(head[:64].tobytes()) or reason + "; is this a TFRecord file?"
        return error_class(reason, path=path, offset=offset)

    def check(
        self,
        buffer: npt.NDArray[np.uint8],
        starts: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
        verify_crc: bool,
    ) -> list[tuple[int, type[TorchRecIOError], str]]:
        faults = _core.check_frames(buffer, starts, lengths, verify_crc)
        return [(position, *_FAULTS[fault]) for position, fault in faults]


_NONE = np.empty(0, np.uint64)
TFRECORD = TFRecordFormat()


def _what_else(head: bytes) -> str | None:
    """Names what people mistake for a TFRecord file."""
    if head.startswith(b"version https://git-lfs"):
        return "this is a git-lfs pointer, not the data it stands for; run 'git lfs pull'"
    if head.startswith((b"\x1f\x8b", b"\x78")):
        return "this looks compressed; do not pass compression=None"
    if head.startswith(b"\x83\xaf\x70\xd1"):
        return "this is a Riegeli file, not a TFRecord file"
    if head[:4].isascii() and head[:4].decode("ascii").isprintable():
        return "this looks like text, not like a TFRecord file"
    return None
