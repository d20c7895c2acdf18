"""
Decompression of torchrec_io. Private: its names may change in any release.

It is missing from builds without ISA-L.
"""

import enum
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


def stop_daemons() -> bool: ...

def stay_if_exiting() -> None: ...

class Format(enum.Enum):
    """Format of a stream."""

    deflate = 0

    gzip = 1

    zlib = 2

class InflateStream:
    """
    A gzip member, zlib stream or DEFLATE stream that is decompressed in pieces.

    Only one thread may use it at a time.

    Args:
        format: Format of the stream, which starts with its header.
        window: Up to 32 KiB before the start in a DEFLATE stream; uint8.
        bit: Bit of a byte where that starts, from 0 to 7.
        first: The byte.
    """

    @overload
    def __init__(self, format: Format) -> None: ...

    @overload
    def __init__(self, window: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], bit: int, first: int) -> None: ...

    @property
    def is_done(self) -> bool:
        """True if the stream has ended, and its checksum is right."""

    def decode(self, data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> tuple[int, int]:
        """
        Decompress until the output is full, the input does not suffice, or the stream ends.

        Args:
            data: Input; uint8. What was not consumed must precede the next input. In a stream
                that starts inside a byte, the first input is the byte after that.
            out: Memory for the output; uint8.

        Returns:
            Number of bytes consumed and produced.

        Raises:
            zlib.error: If the stream is damaged. The content of `out` is undefined then.
        """
