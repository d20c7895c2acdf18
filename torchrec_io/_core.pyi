"""
Native core of torchrec_io. Private: its names may change in any release.
"""

from collections.abc import Sequence
from typing import Annotated

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

def read_ranges(fd: int, ranges: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> int:
    """
    Reads ranges ([n, 3]: file offset, size, place in the buffer) of an open file.

    Returns -1, or the number of the range that reaches past the end of the file.
    """

def advise_ranges(fd: int, ranges: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> None:
    """Tells the system that ranges, as in read_ranges, are about to be read."""

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

class Located:
    """Where the values of a batch lie; see ExampleParser.locate."""

    @property
    def records(self) -> int: ...

    @property
    def failures(self) -> list[tuple[int, int, int, str]]:
        """(record, feature or -1, offset, reason) of damaged records."""

    def totals(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Values and bytes of each feature: [features * 2]."""

    def spans(self, buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], feature: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
        """
        Offset and size in the buffer of a span feature's value in each record.
        """

class ExampleParser:
    """Parses batches of serialized tf.train.Example."""

    def __init__(self, specs: Sequence[tuple[bytes, int, int, int, bool, bytes, Sequence[int]]]) -> None:
        """
        specs: (name, element, shape, count, has_default, default_data, default_sizes) each.
        """

    def locate(self, buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Located:
        """
        First pass: finds every feature of the records buffer[start : start + size].
        """

    def fill(self, buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], located: Located, places: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu', writable=False)], arena: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> list[tuple[int, int, int, str]]:
        """
        Second pass: writes the columns at `places` ([features, 3]: row offsets, value offsets,
        data; in bytes) of the arena. Returns failures as Located.failures does.
        """
