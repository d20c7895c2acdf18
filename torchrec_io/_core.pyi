"""
Native core of torchrec_io. Private: its names may change in any release.
"""

from collections.abc import Sequence
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


def allocate(size: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
    """
    An array of bytes, 64-byte aligned, of any content, from memory that is kept for reuse.
    """

def kept_bytes() -> int:
    """
    Bytes of memory that are kept for reuse; 0 where another thread is busy with them.
    """

def crc32c(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], crc: int = 0, portable: bool = False) -> int:
    """CRC-32C of `data` appended to data whose CRC is `crc`."""

def mask_crc(crc: int) -> int:
    """The masked form of a CRC that TFRecord stores."""

def scan_frames(window: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], at: int, stream_end: int) -> tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,))], int, str]:
    """
    Walks the frames of a stream's bytes from offset `at`, which starts a frame, on.

    Returns (starts, next, fault): stream offsets of whole frames, where the next header
    should start, and what is wrong there ('' if nothing is).
    """

def check_frames(buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], check_data: bool) -> list[tuple[int, str]]:
    """
    Checks frames whose headers start at `starts`; returns (position, fault) of the bad ones.
    """

def frame_records(records: list[bytes]) -> tuple[NDArray[numpy.uint8], NDArray[numpy.uint64]]:
    """
    (frames, starts): the frames of records, one after another, and where each starts.
    """

def frame_ends(record: bytes) -> tuple[bytes, bytes]:
    """What stands before and behind a record's data in its frame."""

def encode_index(starts: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], restarts: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu', writable=False)], *, format: int, compression: int, data_bytes: int, data_mtime_ns: int, data_fingerprint: int, stream_end: int) -> bytes:
    """The bytes of a .tfidx file."""

def read_index_header(file: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[int, int, int, int, int, int, int]:
    """
    Checks a whole .tfidx file and returns (format, compression, count, data_bytes,
    data_mtime_ns, data_fingerprint, stream_end). ValueError says what is wrong with it.
    """

def read_index_restarts(file: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> list[tuple[int, int]]:
    """
    (stream offset, file offset) of each place where decompression can start.
    """

def locate_records(file: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], records: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
    """Stream offsets of the starts and ends of records."""

def permute(positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: int, key: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """Values of a keyed uniform permutation of 0..size-1 at `positions`."""

def window_permute(positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: int, window: int, key: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Values at `positions` of a permutation that moves none by more than `window`.
    """

def block_permute(positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: int, block: int, window: int, key: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Values at `positions` of a permutation of whole blocks, then of each window's positions.
    """

def encode_messages(contexts: list[dict[object, object] | None], sequences: list[dict[object, object] | None] | None, kinds: dict[str, int] | None, numbered: bool, array_type: type, scalar_type: type, simplify: object) -> list[bytes]:
    """
    Serializes Examples, or SequenceExamples if there are `sequences` as well, of dicts; None
    is a part that is not set. `kinds` gives field numbers in Feature by name; errors say the
    example's number if that is asked for. `simplify(value, steps)` is called for values of
    other types than Python's own and NumPy's two: `array_type`, `scalar_type` and its heirs.
    """

class Records:
    """Views of the records of a batch; keeps their bytes alive."""

    @overload
    def __init__(self, buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """Records buffer[start : start + size]."""

    @overload
    def __init__(self, records: tuple[bytes, ...]) -> None:
        """Records that are bytes objects."""

    @property
    def bytes(self) -> int:
        """Of all records together."""

    def copy_parts(self, which: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: int, out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """
        Copies `size` bytes of record which[i], from offsets[i] on, for each i, one behind the
        other to `out`, which they fill.
        """

class Located:
    """Where the values of a batch lie."""

    @property
    def failures(self) -> list[tuple[int, int, int, str]]:
        """
        (record, feature or -1, byte in the record or -1, reason) of damaged records.
        """

    def sizes(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Values, bytes, steps and most parts of each feature: [features * 4]."""

class Tensors:
    """Serialized tensors, one for each record."""

    @property
    def failures(self) -> list[tuple[int, int, int, str]]:
        """As Located.failures."""

    def sizes(self) -> list[tuple[list[int], int, int]]:
        """(dims, elements, bytes) of each."""

    def fill(self, places: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu', writable=False)], arena: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> list[tuple[int, str]]:
        """
        Writes each at its place (offsets of strings, from 0; data). Returns (record, reason).
        """

class FeatureSpec:
    """A column to make; see _core/example.h."""

    def __init__(self, key: bytes, *, in_lists: bool = False, element: int, shape: int, count: int = 1, optional: bool = False, narrow_splits: bool = False, default_data: bytes = ..., default_sizes: Sequence[int] = []) -> None: ...

    @property
    def key(self) -> bytes: ...

class ExampleParser:
    """Parses batches of serialized tf.train.Example and SequenceExample."""

    def __init__(self, specs: Sequence[FeatureSpec], sequences: bool = False) -> None: ...

    @property
    def is_fixed(self) -> bool:
        """
        Whether all columns are numbers, of a size that does not depend on the data.
        """

    def locate(self, records: Records) -> Located:
        """First pass: finds every feature of the records."""

    def fill(self, located: Located, places: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu', writable=False)], arena: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> list[tuple[int, int, int, str]]:
        """
        Second pass: writes the columns at `places` ([features, 4]: offsets of rows, of steps
        and of bytes values, data) of the arena. Returns failures as Located.failures does.
        """

    def parse_fixed(self, records: Records, places: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu', writable=False)], arena: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> list[tuple[int, int, int, str]]:
        """Both passes at once, where `is_fixed`. Returns failures."""

    def spans(self, located: Located, feature: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
        """
        Offset in its record and size of each value of a span feature, or an aside one of
        bytes; then offsets and rows as `counts` gives.
        """

    def tensors(self, located: Located, feature: int, type: int) -> Tensors:
        """
        The serialized tensors in a span feature; `type` as in tensorflow.DataType.
        """

    def counts(self, located: Located, feature: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
        """
        How many values a feature has: (offsets [units + 1], each record's units as offsets).
        A unit is a record, or a step of a feature list.
        """

    def integers(self, located: Located, feature: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], list[tuple[int, int, int, str]]]:
        """
        Values of an aside feature of int64, then offsets and rows as `counts` gives, then failures.
        """

def split_lists(records: Records) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], list[tuple[int, int, str]]]:
    """
    The parts of records that are ExampleListWithContext: (which examples each record
    has: [records + 1], where each example lies in its record, and its size; the record
    of each context, where in it, and its size; (record, byte, reason) of damaged ones).
    """

def count_bits(words: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """How many bits are set before each 512 bits of `words`, and in all."""

def select_bits(words: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], places: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Numbers of the set bits that have so many set bits before them; `counts` are those
    of count_bits.
    """

def rank_bits(words: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """How many bits are set before each of the `numbers`."""

class IndexSet:
    """The indexes of files whose records are numbered on from file to file."""

    def __init__(self, counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """`counts`: records of each file."""

    def take(self, file: int, index: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], epoch: int) -> None:
        """
        Notes that a file was looked at in an epoch; the first time, keeps its index.
        """

    def unseen(self, files: Sequence[int], epoch: int) -> list[int]:
        """Which of `files` were not looked at in the epoch, or a later one."""

    def locate(self, numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], epoch: int) -> tuple[list[int], list[int], list[int]]:
        """
        (unseen, files, starts): which files must be looked at first, and if none, file and
        stream offset of each record's frame.
        """

    def plan(self, numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], epoch: int, gap: int) -> tuple[list[int], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], list[int], list[int], Annotated[NDArray[numpy.int64], dict(shape=(None, None))], int]:
        """
        (unseen, sizes, placed, files, cuts, ranges, buffer_bytes): which files must be
        looked at first, and if none, the reads that fetch records into one buffer.
        """

def read_ranges(fds: Sequence[int], cuts: Sequence[int], ranges: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> tuple[int, int]:
    """
    Reads ranges ([n, 3]: file offset, size, place in the buffer) of open files; those from
    cuts[i] to cuts[i + 1] are of fds[i].

    Returns -1, or the number of a range that reaches past the end of its file; and how
    often the thread had to wait: not all was in memory.
    """

def advise_ranges(fd: int, ranges: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> None:
    """Tells the system that ranges, as in read_ranges, are about to be read."""

def gather(source: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], ranges: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    Copies ranges ([n, 3]: offset in `source`, size, place in `buffer`), one after the other.
    The two may share memory.
    """

def gather_frames(held: Sequence[tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]]], names: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], blocks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], placed: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> int:
    """
    Copies frames from blocks to where they are wanted in `buffer`.

    `held` has (buffer, numbers, placed, sizes) of each block, `names` its name; both numbers
    and names ascend. The frame of numbers[i], in the block blocks[i], goes to placed[i];
    those of other blocks are left out. Returns -1, or the number of one that its block
    lacks.
    """

def load(parser: ExampleParser, batches: Sequence[tuple[Sequence[int], Sequence[int], Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], Records]], check_data: bool) -> tuple[list[Located], int]:
    """
    Reads, checks and locates batches, up to the first in which anything is wrong.

    Each is (fds, cuts, ranges, placed, lengths, buffer, records): the first three as
    read_ranges takes them, then where each frame will start in the buffer, the bytes
    of its data, and the records in that buffer, which must be kept. Returns what was
    located, and how often the thread had to wait.
    """

def load_fixed(parser: ExampleParser, batches: Sequence[tuple[Sequence[int], Sequence[int], Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], Records]], targets: Sequence[tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]]], check_data: bool) -> tuple[int, int]:
    """
    The same where the parser is fixed, and parses each batch into its target (places,
    arena). Batches may share a buffer. Returns how many went well, and the waits.
    """

def fill_run(parser: ExampleParser, located: Sequence[Located], targets: Sequence[tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]]]) -> int:
    """
    Fills the targets (places, arena) of located batches; returns how many went well.
    """

def map_file(descriptor: int, size: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)]:
    """
    The first bytes of an open file, mapped: read-only, and valid once it is closed.
    """

def take_slot(slot: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> bool:
    """
    Takes a piece of shared memory to write to it; False while what is in it is lent.
    """

def is_kept_slot(slot: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> bool:
    """
    Whether a slot stays in use for good: its borrower forked while it had it.
    """

def lend_slot(slot: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], size: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
    """
    What was written to a slot that was taken, from byte 64 on. The slot is free again when
    the last view of that is gone from this process, unless it was forked meanwhile.
    """

def unfilter_png(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], row_bytes: int, pixel_bytes: int) -> bool:
    """
    Undoes the filters of an image's rows, in place: each row is a byte that names its
    filter, and `row_bytes` of pixels. False if they are no such rows.
    """
