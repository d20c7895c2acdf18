"""
Native core of torchrec_io. Private: its names may change in any release.
"""

from collections.abc import Callable, Sequence
import enum
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


def allocate(size: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
    """
    Return an uninitialized array of bytes, aligned to 64 bytes, from the memory pool.
    """

def kept_bytes() -> int:
    """
    Return the number of bytes that the memory pool keeps for reuse.

    The number is 0 if another thread is using the pool.
    """

def compare_exchange(word: Annotated[NDArray[numpy.int64], dict(shape=(1), order='C', device='cpu')], expected: int, desired: int) -> bool:
    """
    Store `desired` in a word of shared memory if it is `expected`. Return whether it was.

    This is atomic between processes.
    """

SLOT_HEADER_BYTES: int = 64

def take_slot(slot: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> bool:
    """
    Take a free slot of shared memory to write to it. Return False if it is not free.
    """

def release_slot(slot: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Free a taken slot whose content was not sent."""

def is_slot_retired(slot: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> bool:
    """
    Return whether a slot is never free again because its reader forked while it had the slot.
    """

def lend_slot(slot: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], size: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
    """
    Return the first `size` bytes of the content of a taken slot.

    The slot is free again when the last view of the array is gone from this process, unless
    the process was forked meanwhile.
    """

def stop_daemons() -> bool: ...

def stay_if_exiting() -> None: ...

def crc32c(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> int:
    """Return the CRC-32C of data."""

def mask_crc(crc: int) -> int:
    """Return the masked form of a CRC, as TFRecord files store it."""

FRAME_HEADER_BYTES: int = 12

FRAME_FOOTER_BYTES: int = 4

class FrameFault(enum.Enum):
    """Fault of a frame."""

    length_crc = 0
    """The length does not match its checksum."""

    past_end = 1
    """The frame extends past the end of the file."""

    data_crc = 2
    """The data does not match its checksum."""

    length_mismatch = 3
    """The frame is valid, but does not have the expected length."""

    truncated_header = 4
    """
    The file ends inside a header. Reported by callers, which know where it ends.
    """

    too_large = 5
    """The record is larger than the limit. Reported by sweep_frames."""

class FrameScan:
    """The frames found in a part of a stream."""

    @property
    def starts(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]:
        """Stream offsets of the whole frames; uint64 [n]."""

    @property
    def next(self) -> int:
        """Stream offset where the next header should start."""

    @property
    def fault(self) -> FrameFault | None:
        """Fault of the frame at `next`; None if it has none."""

def scan_frames(window: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], at: int, stream_end: int, check_lengths: bool = True) -> FrameScan:
    """
    Find the frames in a part of a stream.

    Args:
        window: Bytes of the stream.
        at: Stream offset of the window. A frame must start there.
        stream_end: Size of the stream, or more if it is unknown.
        check_lengths: Whether to check the CRCs of lengths.
    """

def check_frames(buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], check_crcs: bool) -> list[tuple[int, FrameFault]]:
    """
    Check frames in a buffer, and return the position and fault of each invalid one.

    Args:
        buffer: Bytes that contain the frames.
        starts: Offset of each frame in the buffer.
        lengths: Expected number of data bytes of each frame.
        check_crcs: Whether to check the CRCs of the length and the data.
    """

class FrameGap:
    """A part of a stream without valid frames."""

    @property
    def start(self) -> int:
        """Offset in the window."""

    @property
    def end(self) -> int:
        """Offset of its end in the window."""

    @property
    def fault(self) -> FrameFault:
        """Fault of the frame at `start`."""

    @property
    def is_one_frame(self) -> bool:
        """True if the gap is one frame with damaged data."""

class FrameSweep:
    """The valid frames of a part of a damaged stream."""

    @property
    def starts(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]:
        """Offset in the window of each valid frame; uint64 [n]."""

    @property
    def lengths(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]:
        """Number of data bytes of each valid frame; uint64 [n]."""

    @property
    def gaps(self) -> list[FrameGap]:
        """Gaps that end in the window."""

    @property
    def at(self) -> int:
        """Offset in the window; everything before it is decided."""

    @property
    def needed(self) -> int:
        """Number of bytes from `at` on that are needed to decide more."""

    @property
    def open_gap(self) -> FrameGap | None:
        """
        Gap that continues at `at`; None if there is none. Its start is 0 if it began in an earlier window.
        """

def sweep_frames(window: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], left: int, max_record_bytes: int, is_in_gap: bool) -> FrameSweep:
    """
    Find all frames in a part of a stream whose length and data match their checksums.

    Args:
        window: Bytes of the stream.
        left: Number of bytes of the stream from the window on, or more if it is unknown.
        max_record_bytes: Largest size of a record in bytes.
        is_in_gap: Whether a gap of an earlier window continues at the start of this one.
    """

def frame_records(records: list[bytes]) -> tuple[NDArray[numpy.uint8], NDArray[numpy.uint64]]:
    """
    Return the frames of records, one after another, and the offset of each frame.
    """

def frame_ends(record: bytes) -> tuple[bytes, bytes]:
    """Return the header and the footer of the frame of a record."""

def find_deflate_block(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], begin: int, end: int) -> int | None:
    """
    Find a place in a deflate stream where a block can start that is not the last one.

    A block need not start there: try it. Blocks with fixed codes are not found.

    Args:
        data: Part of the stream.
        begin: First bit where the block may start; bit 0 is the lowest of the first byte.
        end: Bit before which it must start.

    Returns:
        The first such bit; None if there is none whose header lies in `data`.
    """

RECORD_BITS: int = 40

INDEX_HEADER_BYTES: int = 104

INDEX_SIGNATURE: bytes = ...

class Compression(enum.Enum):
    """Compression of a data file."""

    none = 0

    gzip = 1

    zlib = 2

    zstd = 3

class GapKind(enum.Enum):
    """Reason why a part of a stream has no records."""

    damaged = 0
    """The data is damaged."""

    left_out = 1
    """The index leaves the records out."""

class Gap:
    """A part of a stream without records."""

    def __init__(self, begin: int, end: int, kind: GapKind) -> None: ...

    @property
    def begin(self) -> int:
        """Stream offset where it begins."""

    @property
    def end(self) -> int:
        """Stream offset where it ends."""

    @property
    def kind(self) -> GapKind:
        """Reason."""

class IndexHeader:
    """The header of an index file."""

    def __init__(self, *, format: int, compression: Compression, data_bytes: int, data_mtime_ns: int, data_fingerprint: int, stream_end: int, header_bytes: int = 0, footer_bytes: int = 0) -> None: ...

    @property
    def format(self) -> int:
        """Code of the record format; 0 is TFRecord."""

    @property
    def compression(self) -> Compression:
        """Compression of the data file."""

    @property
    def records(self) -> int:
        """Number of records."""

    @property
    def data_bytes(self) -> int:
        """Size of the data file."""

    @property
    def data_mtime_ns(self) -> int:
        """Modification time of the data file."""

    @property
    def data_fingerprint(self) -> int:
        """Fingerprint of the content of the data file."""

    @property
    def stream_end(self) -> int:
        """Stream offset where the last record ends."""

    @property
    def header_bytes(self) -> int:
        """Number of bytes of the stream before the first record."""

    @property
    def footer_bytes(self) -> int:
        """Number of bytes of the stream after the last record."""

class Index:
    """
    An index file that was checked.

    Its offsets are in memory, or are read from the file by pages.
    """

    def __init__(self, file: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        Check an index file in memory, whose bytes must not change.

        Raises:
            ValueError: If the bytes are not a valid index. The message explains why.
        """

    @property
    def header(self) -> IndexHeader:
        """Header."""

    @property
    def gaps(self) -> list[Gap]:
        """Gaps, ascending."""

    @property
    def seek_points(self) -> tuple[int, int]:
        """
        Offset and size of the section of seek points in the index file; size 0: none.
        """

    @property
    def stream_bytes(self) -> int:
        """Size of the decompressed stream."""

class IndexScan:
    """Checks an index file that is read from front to back in pieces."""

    def __init__(self, file_bytes: int) -> None:
        """
        Args:
            file_bytes: Size of the file.
        """

    def add(self, bytes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> bool:
        """
        Take the next bytes of the file. Return False if the file is not valid.
        """

    def finish(self) -> Index:
        """
        Return the index, whose offsets remain in the file. Call this once.

        Raises:
            ValueError: If the file is not a valid index. The message explains why.
        """

def encode_index(header: IndexHeader, starts: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], gaps: Sequence[Gap], seek_points: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> bytes:
    """
    Return the bytes of an index file.

    Args:
        header: Header of the file. Its number of records is ignored.
        starts: Stream offset of each record's frame, ascending.
        gaps: Parts of the stream without records, ascending.
        seek_points: Section of seek points; empty: there is none.
    """

class ReadPlan:
    """
    A plan of the reads that fetch the frames of some records into a buffer.
    """

    @staticmethod
    def of_frames(starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> ReadPlan:
        """
        Return the plan of frames that are in a buffer already, numbered from 0.

        Args:
            starts: Offset of each frame in the buffer; int64 [n].
            sizes: Bytes of each record's frame; int64 [n].
        """

    @staticmethod
    def of_ranges(files: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], gap: int) -> ReadPlan:
        """
        Return the plan of parts of files, numbered from 0 in place of records.

        Args:
            files: Number of each part's file; int64 [n].
            starts: Offset of each part in the stream of its file; int64 [n].
            sizes: Bytes of each part; int64 [n].
            gap: Parts with at most this many bytes between them are read at once.
        """

    @staticmethod
    def joined(plans: Sequence[ReadPlan]) -> ReadPlan:
        """
        Return the reads of several plans, by file, into a buffer that has theirs one
        after the other. The plan has no records.
        """

    @property
    def numbers(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Numbers of the records; int64 [n]."""

    @property
    def frame_sizes(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Bytes of each record's frame; int64 [n]."""

    @property
    def frame_starts(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Offset of each frame in the buffer; int64 [n]."""

    @property
    def files(self) -> list[int]:
        """Numbers of the files that are read, ascending."""

    @property
    def range_bounds(self) -> list[int]:
        """
        Number of the first range of each file, and the number of ranges; [files + 1].
        """

    @property
    def ranges(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None, None), writable=False)]:
        """
        Ranges to read; int64 [reads, 3]: file offset, size, offset in the buffer.
        """

    @property
    def buffer_bytes(self) -> int:
        """Size of the buffer."""

    def stored_bytes(self, begin: int, end: int) -> int:
        """
        Return the number of bytes of the frames of the records from `begin` to `end`.
        """

    def by_file(self) -> list[tuple[int, NDArray[numpy.int64]]]:
        """Return each file with its ranges."""

class MissingPages:
    """Pages of an index file that must be read."""

    @property
    def file(self) -> int:
        """Number of the file."""

    @property
    def ranges(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None, None), writable=False)]:
        """
        Ranges to read; int64 [reads, 3]: file offset, size, offset in the buffer.
        """

    @property
    def bytes(self) -> int:
        """Size of the buffer."""

class FrameLookup:
    """The frames of some records, which `IndexSet.find` finds."""

    def __init__(self, numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        Args:
            numbers: Numbers of the records, in any order.
        """

    @property
    def unchecked_files(self) -> list[int]:
        """Files that must be checked before the lookup is continued."""

    @property
    def missing(self) -> list[MissingPages]:
        """Pages that must be added before the lookup is continued."""

    @property
    def damaged_file(self) -> int | None:
        """
        Number of a file with an entry that contradicts its index, if there is one.
        """

    def locations(self) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
        """
        Return the file of each record, and the stream offsets where its frame starts and
        ends, in the requested order.
        """

    def plan(self, gap: int) -> ReadPlan:
        """
        Plan the reads that fetch the records.

        Args:
            gap: Frames with at most this many bytes between them are read at once.
        """

class IndexSet:
    """
    The indexes of files whose records are numbered consecutively.

    A file must be checked for changes in each epoch before it is used.
    """

    def __init__(self, counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], most_pages: int = 16384) -> None:
        """
        Args:
            counts: Number of records of each file.
            most_pages: Number of pages of index files that are kept in memory.
        """

    def mark_checked(self, file: int, index: Index, epoch: int) -> None:
        """
        Note that a file was checked in an epoch. The first call for a file takes its index.
        """

    def unchecked(self, files: Sequence[int], epoch: int) -> list[int]:
        """
        Return those of `files` that were not checked in the epoch or a later one.
        """

    def find(self, lookup: FrameLookup, epoch: int) -> bool:
        """
        Find the frames of a lookup. Return False if the lookup must be continued by another
        call: it has files to check or pages to add.

        Args:
            lookup: The lookup.
            epoch: Epoch in which the files must have been checked.
        """

    def add_pages(self, missing: MissingPages, buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> bool:
        """
        Take pages that were read. Return False if one differs from the indexed page.

        Args:
            missing: The pages.
            buffer: Bytes that were read by its ranges.
        """

def read_ranges(descriptors: Sequence[int], bounds: Sequence[int], ranges: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> int | None:
    """
    Read ranges of several files into a buffer.

    Args:
        descriptors: Descriptors of the open files.
        bounds: Ranges of each file: file i has ranges[bounds[i] : bounds[i + 1]].
        ranges: int64 [n, 3]: file offset, size, offset in the buffer.
        buffer: Bytes that receive the data.

    Returns:
        Number of the range that extends past the end of its file; None if there is none.

    Raises:
        OSError: If reading fails.
    """

def gather(source: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], ranges: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    Copy ranges from `source` to `buffer`, one after another. The two may overlap.

    Args:
        source: Bytes to copy from.
        ranges: int64 [n, 3]: offset in the source, size, offset in the buffer.
        buffer: Bytes that receive the data.
    """

def chunk_checksums(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> bytes:
    """
    Return the CRC-32C of each chunk of 4,096 bytes, as little-endian uint32.
    """

def read_checked(descriptor: int, size: int, checksums: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], ranges: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> bool:
    """
    Read ranges of an open file whose chunks have checksums.

    Args:
        descriptor: Descriptor of the file.
        size: Number of its first bytes that have checksums.
        checksums: Those that `chunk_checksums` returned.
        ranges: int64 [n, 3]: file offset, size, offset in the buffer.
        buffer: Bytes that receive the data.

    Returns:
        False if a range cannot be read, or is damaged.
    """

class FileWatch:
    """Notices that an open file is changed in place."""

    def __init__(self, descriptor: int, size: int, mtime_ns: int) -> None:
        """
        Args:
            descriptor: Descriptor of the file, open as long as the watch is used.
            size: Size of the file when it was opened.
            mtime_ns: Modification time of the file when it was opened.
        """

    def present_size(self) -> int:
        """Return the present size of the file; -1 if that is unknown."""

def find_changed_file(watches: Sequence[FileWatch]) -> int | None:
    """
    Return the position of the first file that was changed; None if there is none.
    """

class FrameBlock:
    """The frames of a block of records, in memory."""

    def __init__(self, plan: ReadPlan, buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        Args:
            plan: Plan of the records, whose numbers ascend.
            buffer: Bytes that were read by the plan.
        """

    @property
    def nbytes(self) -> int:
        """Size of the frames in bytes."""

def gather_frames(blocks: Sequence[FrameBlock], block_numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], plan: ReadPlan, record_blocks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> int | None:
    """
    Copy the frames of records from blocks in memory to a buffer.

    Args:
        blocks: Blocks in memory.
        block_numbers: Number of each block, ascending.
        plan: Plan of the records, with the offset of each frame in the buffer.
        record_blocks: Number of each record's block. Records of other blocks are skipped.
        buffer: Bytes that receive the frames.

    Returns:
        Position of the first record that its block lacks; None if all are there.
    """

def permute(positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: int, key: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Return the values at `positions` of a keyed uniform permutation of 0..size-1.
    """

def inverse_permute(values: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: int, key: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Return the positions of `values` in a keyed uniform permutation of 0..size-1.
    """

def window_permute(positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: int, window: int, key: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Return the values at `positions` of a permutation of 0..size-1 that moves no value by more
    than `window`.
    """

def block_permute(positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: int, block: int, window: int, key: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Return the values at `positions` of a permutation of 0..size-1 that permutes blocks of
    `block` values, and then each `window` positions.
    """

def lane_permute(positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: int, block: int, window: int, lanes: int, key: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Return the values at `positions` of a permutation of 0..size-1 that takes values of all
    `lanes` in turn. Blocks of `block` values and pieces of the rest are assigned to lanes,
    and each `window` values of a lane are permuted.
    """

def count_bits(words: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Return the number of set bits before each 512 bits of `words`, and in all of them.
    """

def select_bits(words: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Return the numbers of the set bits at `positions` among all set bits.

    Args:
        words: Set of numbers; number i is bit i % 64 of word i // 64.
        counts: Result of `count_bits` for the words.
        positions: Positions among the set bits, from 0.
    """

def count_bits_below(words: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Return the number of set bits before each of `numbers`; otherwise as `select_bits`.
    """

def count_packed_rows(lengths: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], cuts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], length: int, extra: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Return the number of rows of each window of documents.

    Args:
        lengths: Number of tokens of each record. Those without tokens are left out.
        numbers: Records of all windows, in order.
        cuts: Index in `numbers` of the start of each window, and of the last one's end.
        length: Length of a row.
        extra: Number of tokens that follow each document: 0 or 1.
    """

def count_packed_tokens(lengths: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], cuts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], extra: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Return the number of tokens of each window; otherwise as `count_packed_rows`.
    """

def pack_window(lengths: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], length: int, extra: int) -> RowPlan:
    """
    Return the rows of a window of documents; otherwise as `count_packed_rows`.
    """

def cut_rows(numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], begin: int, end: int, length: int) -> RowPlan:
    """
    Return rows that are cut from joined documents.

    Args:
        numbers: Record number of each document.
        lengths: Number of tokens of each document, without a separator.
        starts: First token of each document in the sequence of all tokens.
        begin: First token of the rows in that sequence.
        end: Token after the last one.
        length: Length of a row.
    """

class RowPlan:
    """Rows and the pieces of documents in each."""

    def __init__(self) -> None: ...

    def __len__(self) -> int: ...

    def take(self, rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> RowPlan:
        """
        Return some rows, with their documents in the order of their first pieces.
        """

    def append(self, other: RowPlan, base: int = 0) -> None:
        """
        Add the rows of another plan, with a number added to its record numbers.
        """

    def repack(self, kept: int, length: int) -> RowPlan:
        """
        Return the first rows of a window, and all others packed again.

        Args:
            kept: Number of rows that stay as they are.
            length: Length of the other rows.
        """

    def first_numbers(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Return the record number of the first document of each row."""

    @property
    def numbers(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Record number of each document."""

    @property
    def lengths(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Number of tokens of each document, without a separator."""

    @property
    def row_begins(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """First piece of each row, then the number of pieces."""

    @property
    def documents(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Index in `numbers` of the document of each piece."""

    @property
    def begins(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """First token of each piece in its document."""

    @property
    def sizes(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Number of tokens of each piece, with the separator."""

    @property
    def length(self) -> int:
        """Length of a row; 0 until it is set."""

    @length.setter
    def length(self, arg: int, /) -> None: ...

class Labels(enum.Enum):
    """Which token is the label of a token."""

    same = 0
    """The token itself."""

    next = 1
    """The next token of its document."""

class PackedColumn:
    """A feature with a value for each token."""

    def __init__(self, feature: int, at: int, padding: bytes, separator: bytes | None) -> None:
        """
        Args:
            feature: Position of its spec in the parser.
            at: Offset of the rows in the arena.
            padding: Bytes of one value.
            separator: Bytes of the value after a document; None repeats its last value.
        """

class RowFormat:
    """The columns of rows that have a value for each token."""

    def __init__(self, columns: Sequence[PackedColumn], *, segments_at: int, positions_at: int, continues: bool, labels: Labels | None, labels_at: int, separator: int | None) -> None:
        """
        Args:
            columns: The tokens, and other features.
            segments_at: Offset of the segments in the arena; int32.
            positions_at: Offset of the positions in the arena; int32.
            continues: Whether positions are those in the document, not in the piece.
            labels: Which token is the label of a token; None for no labels.
            labels_at: Offset of the labels in the arena; int64.
            separator: Token that follows each document, if there is one.
        """

class RowWriter:
    """Writes the rows of a plan."""

    @property
    def num_pieces(self) -> int: ...

    @property
    def num_segments(self) -> int: ...

    def write_pieces(self, out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], splits_at: int, numbers_at: int, segment_splits_at: int, segment_lengths_at: int) -> None:
        """
        Write which pieces the rows have.

        Args:
            out: Arena of the rows.
            splits_at: Offset of the first piece of each row, then the number of pieces; int64.
            numbers_at: Offset of the record number of each piece; int64.
            segment_splits_at: As `splits_at`, with the padding of a row as a piece.
            segment_lengths_at: Offset of the number of tokens of each of these; int32.
        """

    def write(self, documents: LocatedBatch, format: RowFormat, out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> bool:
        """
        Decode the documents into rows.

        Args:
            documents: The located documents.
            format: Columns of the rows.
            out: Arena of the rows.

        Returns:
            False if a document is invalid, or has not as many values as planned. The rows
            are undefined then.
        """

def row_writer(plan: RowPlan, length: int, records: int, sources: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None) -> RowWriter:
    """
    Return the writer of the rows of a plan.

    Args:
        plan: The rows.
        length: Length of a row.
        records: Number of records in the batch of documents.
        sources: Record of each document in that batch, -1 if it is lost; None if they are
            the same.
    """

class Kind(enum.Enum):
    """Kind of the values that a Feature stores."""

    bytes = 1

    floats = 2

    ints = 3

class Dtype(enum.Enum):
    """Element type of a column."""

    int64 = 0

    int32 = 1

    int16 = 2

    int8 = 3

    uint64 = 4

    uint32 = 5

    uint16 = 6

    uint8 = 7

    bool = 8

    float32 = 9

    float64 = 10

    float16 = 11

    bfloat16 = 12

    string = 13

class TensorType(enum.Enum):
    """Element type of a tensor, numbered as in TensorFlow."""

    float32 = 1

    float64 = 2

    int32 = 3

    uint8 = 4

    int16 = 5

    int8 = 6

    string = 7

    complex64 = 8

    int64 = 9

    bool = 10

    bfloat16 = 14

    uint16 = 17

    complex128 = 18

    float16 = 19

    uint32 = 22

    uint64 = 23

class ColumnType(enum.Enum):
    """
    Rule that turns the values of a feature, or of each step of a feature list, into a column.
    """

    fixed = 0
    """Exactly `count` values per record."""

    ragged = 1
    """Any number of values per record or step, with row splits."""

    flat = 2
    """Any number of values per record or step, without row splits."""

    padded = 3
    """
    Parts (steps) of exactly `count` values, padded to the longest of the batch.
    """

    raw_bytes = 4
    """One bytes value of exactly `count` bytes per record, copied."""

    resized_bytes = 5
    """One bytes value per record, truncated or zero-padded to `count` bytes."""

    span = 6
    """
    One bytes value per record; no column. `LocatedBatch.spans` locates it.
    """

    on_request = 7
    """
    Any number of int64 or bytes values; no column. `LocatedBatch.ints` or `spans` return
    them.
    """

class Records:
    """The records of a batch. Keeps their bytes alive."""

    @overload
    def __init__(self, buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        Args:
            buffer: Bytes that contain the records, which must not change.
            starts: Offset of each record in the buffer.
            sizes: Bytes of each record.
        """

    @overload
    def __init__(self, records: tuple[bytes, ...]) -> None:
        """
        Args:
            records: Bytes of each record.
        """

    @property
    def total_bytes(self) -> int:
        """Total size of all records."""

    def copy_parts(self, which: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: int, out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """
        Copy parts of records, one after another.

        Args:
            which: Position of the record of each part.
            offsets: Offset of each part in its record.
            size: Bytes of each part.
            out: Bytes that receive the parts, which fill it.
        """

class Failure:
    """A record that cannot be parsed."""

    @property
    def record(self) -> int:
        """Position of the record in the batch."""

    @property
    def feature(self) -> int | None:
        """Position of the feature in the specs; None for the record as a whole."""

    @property
    def offset(self) -> int | None:
        """Byte in the record; None if something is missing."""

    @property
    def reason(self) -> str:
        """Reason, as part of an error message."""

class ColumnSize:
    """The room that a column needs."""

    @property
    def values(self) -> int:
        """Number of values."""

    @property
    def bytes(self) -> int:
        """Total size of bytes values."""

    @property
    def steps(self) -> int:
        """Number of steps of feature lists."""

    @property
    def longest(self) -> int:
        """Number of parts (steps) of the record that has the most."""

class ColumnTargets:
    """Offsets in an arena that the columns of a batch are written to."""

    def __init__(self, columns: int) -> None:
        """
        Args:
            columns: Number of columns.
        """

    def copy(self) -> ColumnTargets:
        """Return a copy of the targets."""

    def set(self, column: int, *, rows: int = 0, steps: int = 0, values: int = 0, data: int = 0) -> None:
        """
        Set the offsets of the parts of a column in the arena, in bytes.

        Args:
            column: Position of the column.
            rows: Row splits [records + 1]; for a padded column int64 lengths [records].
            steps: Splits of the steps [steps + 1] of a ragged feature list.
            values: int64 offsets [values + 1] of bytes values in the data.
            data: Elements, or the joined bytes values.
        """

    def data_offset(self, column: int) -> int:
        """Return the offset of the data of a column."""

class UnitOffsets:
    """
    Division of the values of a feature into units.

    A unit is a record, or a step of a feature list.
    """

    @property
    def values(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """
        Number of the first value of each unit, and of all values; int64 [units + 1].
        """

    @property
    def records(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """
        Number of the first unit of each record, and of all units; int64 [records + 1].
        """

class ByteSpans:
    """Locations of bytes values in their records."""

    @property
    def offsets(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Offset of each value in its record; int64 [values]."""

    @property
    def sizes(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Bytes of each value; int64 [values]."""

    @property
    def units(self) -> UnitOffsets:
        """Division of the values into units."""

class StoredInts:
    """Decoded integers of a feature."""

    @property
    def values(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Values; int64 [values]."""

    @property
    def units(self) -> UnitOffsets:
        """Division of the values into units."""

    @property
    def failures(self) -> list[Failure]:
        """Records with invalid values."""

class TensorHeader:
    """The shape and size of a serialized tensor."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions of the tensor."""

    @property
    def bytes(self) -> int:
        """Total size of the elements; for strings, of the joined values."""

class TensorBatch:
    """The serialized tensors of a feature."""

    @property
    def failures(self) -> list[Failure]:
        """Records whose value is not a tensor of the expected type."""

    @property
    def headers(self) -> list[TensorHeader]:
        """Shape and size of each record's tensor."""

    def fill(self, offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], data: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], arena: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> list[Failure]:
        """
        Write the tensors into the arena, and return the failures.

        Args:
            offsets: Arena offset of each tensor's int64 offsets [elements + 1], for strings.
                They count from the start of the tensor's data.
            data: Arena offset of each tensor's data.
            arena: Bytes that receive the tensors.
        """

class LocatedBatch:
    """The result of the first pass. Keeps its parser and records alive."""

    @property
    def failures(self) -> list[Failure]:
        """Records that cannot be parsed, at most one failure each."""

    def size(self, feature: int) -> ColumnSize:
        """Return the room that the column of a feature needs."""

    def units(self, feature: int) -> UnitOffsets:
        """Count the values of a feature."""

    def spans(self, feature: int) -> ByteSpans:
        """Locate the values of a feature of bytes."""

    def ints(self, feature: int) -> StoredInts:
        """Decode the values of a feature of int64."""

    def tensors(self, feature: int, type: TensorType) -> TensorBatch:
        """Read the headers of the serialized tensors in a span feature."""

class FeatureSpec:
    """A column and the stored feature that it is made of."""

    def __init__(self, key: bytes, dtype: Dtype, column_type: ColumnType, *, count: int = 1, in_lists: bool = False, is_optional: bool = False, int32_splits: bool = False, default_data: bytes = ..., default_sizes: Sequence[int] = ()) -> None:
        """
        Args:
            key: Name of the stored feature.
            dtype: Element type of the column.
            column_type: Rule that turns the values into a column.
            count: Number of values or bytes; see ColumnType.
            in_lists: Whether the feature is a feature list.
            is_optional: Whether records may lack the feature.
            int32_splits: Whether row splits are int32 instead of int64.
            default_data: Elements of records without the feature, or one element of padding.
            default_sizes: Bytes of each value in `default_data`, for bytes.

        Raises:
            ValueError: If the arguments contradict each other.
        """

    def without_column(self) -> FeatureSpec:
        """
        Return the spec of the same values, which are located but not written.

        Raises:
            ValueError: If the column is not a list of numbers.
        """

    @property
    def key(self) -> bytes:
        """Name of the stored feature."""

class ExampleParser:
    """Parser of serialized tf.train.Example and SequenceExample records."""

    def __init__(self, specs: Sequence[FeatureSpec], sequences: bool = False) -> None:
        """
        Args:
            specs: Columns to make.
            sequences: Whether the records are SequenceExamples.
        """

    @property
    def is_fixed(self) -> bool:
        """
        Whether each row of all columns has a size that does not depend on the data.
        """

    def locate(self, records: Records) -> LocatedBatch:
        """First pass: locate the values of the records."""

class BatchReads:
    """The reads that fetch one batch. Keeps its buffer and records alive."""

    def __init__(self, descriptors: Sequence[int], plan: ReadPlan, buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], records: Records) -> None:
        """
        Args:
            descriptors: Descriptor of each file of the plan, open until the batch is loaded.
            plan: Plan of the reads.
            buffer: Bytes that receive the frames.
            records: Records that will be in the buffer, which are parsed.
        """

    @staticmethod
    def of_buffer(plan: ReadPlan, buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], records: Records) -> BatchReads:
        """
        Return reads of frames that are in the buffer already.

        Args:
            plan: Plan of the records.
            buffer: Bytes with the frames.
            records: Records in the buffer.
        """

    @staticmethod
    def of_records(records: Records) -> BatchReads:
        """Return reads of records that are in memory already, without frames."""

def load_batches(parser: ExampleParser, reads: Sequence[BatchReads], check_crcs: bool) -> list[LocatedBatch]:
    """
    Read, check and locate batches, up to the first that cannot be read or parsed. Return
    the located batches.

    Args:
        parser: Parser of the records.
        reads: Reads of each batch.
        check_crcs: Whether to check the CRCs of lengths and data.
    """

def load_fixed_batches(parser: ExampleParser, reads: Sequence[BatchReads], targets: Sequence[ColumnTargets], arenas: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]], check_crcs: bool) -> tuple[int, list[Failure]]:
    """
    Read, check and parse batches, if the parser is fixed. Stop at the first that cannot be
    read or parsed. Return the number of loaded batches, and the failures of that first one.

    Args:
        parser: Parser of the records, which is fixed.
        reads: Reads of each batch. Batches may share a buffer.
        targets: Offsets that the columns of each batch are written to.
        arenas: Arena of each batch.
        check_crcs: Whether to check the CRCs of lengths and data.
    """

def fill_batches(located: Sequence[LocatedBatch], targets: Sequence[ColumnTargets], arenas: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]]) -> tuple[int, list[Failure]]:
    """
    Second pass: fill the arenas of located batches, which must have no failures. Stop at the
    first that cannot be parsed, whose arena is undefined then. Return the number of filled
    batches, and the failures of that first one.
    """

class ListParts:
    """
    Locations of the parts of some ExampleListWithContext records.

    Offsets count from the start of the record.
    """

    @property
    def example_splits(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """
        Number of the first example of each record, and of all; int64 [records + 1].
        """

    @property
    def example_offsets(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Offset of each example; int64 [examples]."""

    @property
    def example_sizes(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Bytes of each example; int64 [examples]."""

    @property
    def context_records(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Record of each context, ascending; int64 [contexts]."""

    @property
    def context_offsets(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Offset of each context; int64 [contexts]."""

    @property
    def context_sizes(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Bytes of each context; int64 [contexts]."""

    @property
    def failures(self) -> list[Failure]:
        """Invalid records, which have no parts."""

def split_lists(records: Records) -> ListParts:
    """
    Locate the context and the examples of ExampleListWithContext records.

    A record may have several contexts, which protobuf merges, or none.
    """

class PieceKeys:
    """The stored features of which pieces are located."""

    def __init__(self, *, context: Sequence[bytes], lists: Sequence[bytes], steps: Sequence[bytes], item_bytes: Sequence[int], in_lists: bool) -> None:
        """
        Args:
            context: Features that are one piece.
            lists: Feature lists that are one piece.
            steps: Features, or feature lists, with a piece for each step.
            item_bytes: Bytes of a step of each of these, if it is a list of floats; else 0.
            in_lists: Whether `steps` are feature lists.
        """

def locate_pieces(records: Records, keys: PieceKeys) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.uint32], dict(shape=(None,))]]:
    """
    Locate the parts of records of which messages with some of their steps can be made.

    Returns:
        The number of pieces of each record, int64 [records]; 0 if it is encoded in an
        unusual way. And offset in the record, size, and CRC-32C of each piece, uint32
        [3 * pieces]: of each key of `context` and `lists`, then of the steps of each key of
        `steps`. Pieces that a record lacks have size 0.
    """

def find_mismatches(buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], crcs: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> list[int]:
    """
    Return the positions of the parts of a buffer whose CRC-32C differs.

    Args:
        buffer: Bytes that contain the parts.
        starts: Offset of each part in the buffer.
        sizes: Bytes of each part.
        crcs: Expected CRC-32C of each part.
    """

MAX_LIST_DEPTH: int = 64

class MessageEncoder:
    """Encoder of Examples and SequenceExamples."""

    def __init__(self, kinds: dict[str, Kind] | None, list_kinds: dict[str, Kind] | None, array_type: type, scalar_type: type, simplify: Callable[[object, bool], object], is_of_writer: bool) -> None:
        """
        Args:
            kinds: Kind of each feature, by name. The kinds of others follow from their values.
            list_kinds: Kind of each feature list, likewise.
            array_type: numpy.ndarray.
            scalar_type: numpy.generic.
            simplify: Function of a value and whether it has steps. It converts values of other
                types to Python scalars, lists or arrays.
            is_of_writer: Whether a feature keeps the kind of its first value in all calls, or only
                among the messages of one call.
        """

    def encode(self, contexts: list[dict[object, object] | None], sequences: list[dict[object, object] | None] | None, numbered: bool) -> list[bytes]:
        """
        Serialize messages.

        Args:
            contexts: Values of each feature, by name; None leaves the part out.
            sequences: Steps of each feature list, by name. With None, Examples are made.
            numbered: Whether errors name the position of the message.
        """

class JpegFault(enum.Enum):
    """Reason to refuse a JPEG without decoding it."""

    truncated = 0
    """The file ends before its end marker."""

    invalid_marker = 1
    """A marker is unknown, or its segment is invalid."""

    several_frames = 2
    """There is a second frame header."""

    unsupported_coding = 3
    """The pixels are coded in an arithmetic or hierarchical way."""

    unsupported_precision = 4
    """Values do not have 8 bits."""

    too_many_scans = 5
    """There are more scans than allowed."""

    too_many_segments = 6
    """
    There are more than MAX_JPEG_SEGMENTS segments, or MAX_JPEG_SEGMENT_BYTES in them.
    """

    stray_bytes = 7
    """More than MAX_STRAY_JPEG_BYTES bytes between segments belong to none."""

    missing_scans = 8
    """The scans do not have all bits of all coefficients."""

    missing_restarts = 9
    """A scan has fewer restart markers than its size needs."""

MAX_JPEG_SCANS: int = 64

MAX_JPEG_SEGMENTS: int = 4096

MAX_JPEG_SEGMENT_BYTES: int = 16777216

MAX_STRAY_JPEG_BYTES: int = 65536

class JpegMarkers:
    """
    What the markers of a JPEG say.

    The fields of the frame are 0 if a fault comes before it.
    """

    @property
    def fault(self) -> JpegFault | None:
        """First fault; None if there is none."""

    @property
    def coding(self) -> int:
        """Second byte of the marker of the frame."""

    @property
    def precision(self) -> int:
        """Bits of a value."""

    @property
    def width(self) -> int:
        """Width of the frame."""

    @property
    def height(self) -> int:
        """Height of the frame."""

    @property
    def scans(self) -> int:
        """Number of scans."""

def read_jpeg_markers(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], max_scans: int) -> JpegMarkers:
    """
    Read the markers of a JPEG, without decoding it, up to its end or the first fault.

    Args:
        data: Bytes of the file.
        max_scans: Most scans that are allowed.
    """

def unfilter_png(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], row_bytes: int, pixel_bytes: int) -> bool:
    """
    Reverse the filters of the rows of a PNG image, in place.

    Args:
        data: Rows; each has a byte that names its filter, and `row_bytes` bytes of pixels.
        row_bytes: Bytes of the pixels of a row.
        pixel_bytes: Bytes of a pixel, 1 to 8.

    Returns:
        False if the rows do not fill `data`, or if a filter is unknown.
    """

class RandomResizedCrop:
    """The class of the same name in torchrec_io."""

    def __init__(self, scale: tuple[float, float], ratio: tuple[float, float], log_ratio: tuple[float, float], flip: float) -> None: ...

    def choose(self, height: int, width: int, key: bytes) -> tuple[int, int, int, int, bool]:
        """
        Choose a part of an image: top, left, height, width, and whether it is mirrored.

        Args:
            height: Height of the image.
            width: Width of the image.
            key: Key of NumPy's Philox generator, whose random numbers are used; 16 bytes,
                little-endian.
        """

class RandomCrop:
    """The class of the same name in torchrec_io."""

    def __init__(self, height: int, width: int, flip: float) -> None: ...

    def choose(self, height: int, width: int, key: bytes) -> tuple[int, int, int, int, bool]:
        """
        Choose a part of an image: top, left, height, width, and whether it is mirrored.

        Args:
            height: Height of the image.
            width: Width of the image.
            key: Key of NumPy's Philox generator, whose random numbers are used; 16 bytes,
                little-endian.
        """

class RandomFlip:
    """The class of the same name in torchrec_io."""

    def __init__(self, flip: float) -> None: ...

    def choose(self, height: int, width: int, key: bytes) -> tuple[int, int, int, int, bool]:
        """
        Choose a part of an image: top, left, height, width, and whether it is mirrored.

        Args:
            height: Height of the image.
            width: Width of the image.
            key: Key of NumPy's Philox generator, whose random numbers are used; 16 bytes,
                little-endian.
        """

class ColorJitter:
    """The class of the same name in torchrec_io."""

    def __init__(self, brightness: Sequence[float], contrast: Sequence[float], saturation: Sequence[float], hue: Sequence[float], probability: float) -> None:
        """
        Args:
            brightness: Smallest and largest factor.
            contrast: Smallest and largest factor.
            saturation: Smallest and largest factor.
            hue: Smallest and largest part of the circle, from -0.5 to 0.5.
            probability: Probability that an image is changed.
        """

    def apply(self, pixels: Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None), order='C', device='cpu')], key: bytes) -> None:
        """
        Change the colors of an image at random, in place.

        Args:
            pixels: Levels [H, W, 3] or [H, W, 4]; the fourth channel is kept.
            key: Key of NumPy's Philox generator, whose random numbers are used; 16 bytes,
                little-endian.
        """

class ImageView:
    """The part of an image that is used, and its size."""

    def __init__(self, box: tuple[int, int, int, int], part: tuple[float, float, float, float], size: tuple[int, int]) -> None:
        """
        Args:
            box: Left, top, right and bottom of the part that is cut out.
            part: The part of the box that is resized, in the same form.
            size: Height and width after resizing.
        """

class FitMethod(enum.Enum):
    """Ways to reach a size."""

    whole = 4
    """Values have the sizes of the images."""

    none = 0
    """Images must have the size."""

    stretch = 1
    """Height and width are resized by their own ratios."""

    cover = 2
    """What extends past the size is cut off."""

    contain = 3
    """Something is left around the whole image."""

class Fit:
    """How images become values of one size."""

    def __init__(self, size: tuple[int, int], method: FitMethod, short_side: int = 0) -> None:
        """
        Args:
            size: Height and width of the values.
            method: Way to reach it.
            short_side: Length of the shorter side of an image that covers more than the
                value; 0 for the smallest possible.
        """

    def place(self, height: int, width: int) -> tuple[tuple[float, float, float, float], tuple[int, int], tuple[int, int]]:
        """
        Return the part of an image that is resized (left, top, right, bottom), its size then, and its position in the value (top, left).
        """

class ViewRule:
    """Which part of each image of a column is used."""

    def __init__(self, fit: Fit, max_pixels: int, crop: tuple[int, int, int, int] | None = None, augment: RandomResizedCrop | RandomCrop | RandomFlip | None = None, *, nearest: bool = False, gray: bool = False, shrink: bool = False) -> None:
        """
        Args:
            fit: How the part becomes a value.
            max_pixels: Maximum number of pixels of an image.
            crop: Top, left, height and width of what is cut out of every image first.
            augment: Random part that is then used.
            nearest: Use the nearest pixels when resizing, not their averages.
            gray: Images with colors have no view.
            shrink: Images may be decoded at a fraction of their size.
        """

class StoredImages:
    """Image files in records."""

    def __init__(self, records: Records, which: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], shapes: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None) -> None:
        """
        Args:
            records: Records that hold the images.
            which: Position of the record of each image.
            offsets: Offset of each image in its record.
            sizes: Bytes of each image.
            shapes: Height, width and number of channels of each image that is stored as its
                pixels; None for image files.
        """

class ImageColumn:
    """A view of each image, and where its pixels go."""

    def __init__(self, rule: ViewRule, views: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], keys: bytes | None = None, shared: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None:
        """
        Args:
            rule: Which part of each image is used.
            views: Rows of _images/views.py, as bytes; those of unknown size are to be found.
            keys: Key of the random numbers of each image; 16 bytes each.
            shared: Crops of other images that are used instead, of each image seven int64: the
                height and width of the other image, top, left, height and width of the crop,
                and whether it is mirrored; as bytes.
        """

    def set_pixels(self, memory: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: tuple[int, int] | None, has_planes: bool, channels: int, value_bytes: int, tables: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None) -> None:
        """
        Set the memory of the pixels.

        Args:
            memory: The memory.
            offsets: Offset of each value in it, in bytes.
            size: Height and width of all values; None for those of each view. Pixels around a
                view are not written.
            has_planes: Whether the channels of a value come first.
            channels: Number of channels, 1 to 4.
            value_bytes: Bytes of a value: 1, 2, 4 or 8.
            tables: Values to write for the levels 0 to 255 of each channel, as bytes; None for
                the levels, one byte each.
        """

    def set_jitter(self, jitter: ColorJitter, keys: bytes) -> None:
        """
        Change the colors of the images, each with a key of 16 bytes for its random numbers.
        """

    def missing(self) -> list[int]:
        """Return the positions of the images that were not decoded."""

def find_views(images: StoredImages, column: ImageColumn, threads: int) -> None:
    """
    Find those views of a column that are not known, of valid images of this format.
    """

def decode_columns(images: StoredImages, columns: Sequence[ImageColumn], threads: int, *, fast: bool = False) -> int:
    """
    Decode the images of columns, each once, if they are valid and of this format.

    Args:
        images: The images of each column.
        columns: The columns.
        threads: Number of threads, including this one.
        fast: Use the fast DCT.

    Returns:
        The time that other threads took, in nanoseconds.
    """

class ArrayKind(enum.Enum):
    """The kind of an array of a column."""

    items = 0
    """Items; the last array of a column."""

    offsets = 1
    """Where the values of a row begin in the next array."""

    indices = 2
    """Sparse indices of the values in the next array."""

    padded = 3
    """
    Offsets of rows that the copy pads to one length; in the copy, int64 lengths.
    """

class RowGather:
    """
    Copies rows of columns from several arenas into a new one.

    A column is a chain of arrays, outermost first, that ends with items.
    """

    def __init__(self, sources: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]], arrays: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], places: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], selections: Sequence[Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)]], alignment: int) -> None:
        """
        Plan the copy. Rows that offsets place outside of the next array are cut.

        Args:
            sources: The arenas. They are not kept.
            arrays: int64 [arrays, 8]: kind, bytes of an item, selection that the column
                begins with, items in a row of the copy, number of arrays of items with the
                same rows, number of items that are copied from each row at most, and two
                numbers for padding: an item and 0; or, of offsets, the first row of a value in
                the next array of the last source, and the number of its rows.
            places: int64 [sources * arrays, 4], all arrays of a source before those of the
                next one: offset in the arena, rows, bytes from each of the arrays of items to
                the next one, and items in a row.
            selections: int64 [n, 3] each: source, first row and number of rows. Rows of
                source -1 are padding.
            alignment: Alignment of the arrays of the copy in bytes; 0 for that of items.

        Raises:
            ValueError: If an array or a row lies outside of its source.
            OverflowError: If the copy needs larger offsets than its type has.
        """

    @property
    def arrays(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """
        Three numbers for each array of the copy: its rows (of indices, their
        number), its offset in the arena, and its stride.
        """

    @property
    def arena_bytes(self) -> int:
        """
        Size of the arena of the copy in bytes; at most 2^58, where it needs more.
        """

    def write(self, sources: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]], out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """
        Copy the rows.

        Args:
            sources: The arenas, of the same sizes.
            out: The arena of the copy.

        Raises:
            ValueError: If an arena has another size, or `out` is too small.
        """

class FeatureFacts:
    """Facts about a feature of some records."""

    @property
    def records(self) -> int:
        """
        Number of records that have the feature, also without a list of values.
        """

    @property
    def present(self) -> int:
        """Number of records that have a list of values, or the feature list."""

    @property
    def kinds(self) -> list[str]:
        """Kinds of its values."""

    @property
    def counts(self) -> tuple[int, int] | None:
        """Smallest and largest number of values of a record or step."""

    @property
    def steps(self) -> tuple[int, int] | None:
        """Smallest and largest number of steps of a feature list."""

    @property
    def ints(self) -> tuple[int, int] | None:
        """Smallest and largest integer."""

    @property
    def floats(self) -> tuple[float, float] | None:
        """Smallest and largest float that is a number."""

    @property
    def sizes(self) -> tuple[int, int] | None:
        """Smallest and largest size of a bytes value."""

    @property
    def formats(self) -> list[tuple[str, int]]:
        """Formats of its bytes values, and their numbers."""

    @property
    def has_invalid_image(self) -> bool:
        """Whether a value looks like an image and cannot be decoded."""

class ImageValue:
    """A value that looks like an image."""

    @property
    def record(self) -> int:
        """Position of its record."""

    @property
    def offset(self) -> int:
        """Offset in the record."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    @property
    def feature(self) -> int:
        """Position of its feature in the context, or among the feature lists."""

    @property
    def is_in_list(self) -> bool:
        """True if its feature is a feature list."""

class SurveyedBatch:
    """The result of a survey of some records."""

    @property
    def rejected(self) -> list[int]:
        """
        Positions of the records that are neither Examples nor SequenceExamples.
        """

    @property
    def first_example(self) -> int | None:
        """
        Position of the first record that is an Example and not a SequenceExample.
        """

    @property
    def is_full(self) -> bool:
        """
        True if there are too many features; the rest of the records is not counted then.
        """

    @property
    def images(self) -> list[ImageValue]:
        """Images to check, of features that have only images so far."""

CHARACTER_SET_BYTES: int = 139264

MOST_SURVEY_FEATURES: int = 100000

MOST_SURVEY_NAME_BYTES: int = 16777216

class CharacterSet:
    """A set of Unicode characters."""

    def __init__(self, bits: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        Args:
            bits: A bit for each character, the lowest bits first; CHARACTER_SET_BYTES bytes.
        """

def sniff(value: bytes, printable: CharacterSet) -> str:
    """Return the name of the format that bytes seem to have."""

class Survey:
    """
    Facts about the features of records whose schema is not known.

    One thread at a time may use a survey.
    """

    def __init__(self, printable: CharacterSet, with_lists: bool = True, with_values: bool = True) -> None:
        """
        Args:
            printable: Characters that text may have, besides tabs and line breaks.
            with_lists: Whether records may be SequenceExamples. If not, only the features of
                Examples are read.
            with_values: Whether values are read. If not, only the presence and the kinds of
                features are found, and damage inside of their values is not.
        """

    def add(self, records: Records) -> SurveyedBatch:
        """Add the facts about some records."""

    def mark_invalid(self, image: ImageValue) -> None:
        """Note that a value is not an image that can be decoded."""

    @property
    def records(self) -> int:
        """Number of valid records."""

    @property
    def context(self) -> dict[bytes, FeatureFacts]:
        """Facts about each context feature, or feature of Examples, by name."""

    @property
    def lists(self) -> dict[bytes, FeatureFacts]:
        """Facts about each feature list, by name."""

class Counter(enum.Enum):
    """Number that is counted while data is loaded."""

    records = 0

    bytes = 1

    batches = 2

    waiting_for_data = 3

    waiting_for_consumer = 4

    reading = 5

    checking = 6

    parsing = 7

    decoding = 8

    transform = 9

    copying = 10

class Step:
    """
    A step of loading: the time of a `with` block counts for it.

    A step may contain others, whose time does not count for it.
    """

    def __init__(self, step: Counter) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object | None, error: object | None, traceback: object | None) -> None: ...

class Meter:
    """
    Measures the steps of the thread that starts it, and adds to counters.

    Additions are atomic between processes.
    """

    def __init__(self, numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], counts_waiting: bool, counts_pauses: bool) -> None:
        """
        Args:
            numbers: int64 [n] in shared memory, one for each Counter.
            counts_waiting: Whether the time from start to stop is that of waiting_for_data.
            counts_pauses: Whether the time from stop to start is that of
                waiting_for_consumer.
        """

    @staticmethod
    def is_running() -> bool:
        """Return whether a meter runs in this thread."""

    def start(self) -> None:
        """Start, in this thread."""

    @property
    def has_started(self) -> bool:
        """Whether the meter was started and not stopped."""

    def stop(self, records: int = 0, bytes: int = 0, batches: int = 0) -> None:
        """
        Stop, in the same thread, and add the times and other numbers to the counters.
        """

def add_time(step: Counter, nanoseconds: int) -> None:
    """Count time of other threads for a step of this thread."""

def add_records(numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], records: int) -> None:
    """Add to the number of records."""
