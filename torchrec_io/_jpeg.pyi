"""
JPEG decoding of torchrec_io. Private: its names may change in any release.

It is missing from builds without libjpeg-turbo.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray

import torchrec_io._core


def stop_daemons() -> bool: ...

def stay_if_exiting() -> None: ...

class JpegHeader:
    """What is known of a JPEG before it is decoded."""

    @property
    def height(self) -> int:
        """Height of the stored image in pixels."""

    @property
    def width(self) -> int:
        """Width of the stored image in pixels."""

    @property
    def components(self) -> int:
        """Number of color components: 1, 3 or 4."""

    @property
    def reason(self) -> str:
        """Reason why the image cannot be decoded; empty if it can."""

def read_jpeg_headers(images: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]]) -> list[JpegHeader]:
    """Return the headers of JPEGs; uint8 `[size]` each."""

def decode_jpegs(images: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]], views: Sequence[torchrec_io._core.ImageView], targets: Sequence[Annotated[NDArray, dict(shape=(None, None, None), device='cpu')]], tables: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, *, fast: bool = False) -> list[tuple[int, str]]:
    """
    Decode parts of JPEGs into arrays.

    Args:
        images: JPEGs; uint8 `[size]` each.
        views: Part of each image.
        targets: Array of each image, `[height, width, channels]`, with any strides.
        tables: Values to write for the levels 0 to 255 of each channel, as bytes; by
            default the levels, for targets of uint8.
        fast: Use the fast DCT.

    Returns:
        The position of each image that cannot be decoded, with the reason.
    """

def decode_column(records: torchrec_io._core.Records, which: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], targets: Annotated[NDArray, dict(shape=(None, None, None, None), device='cpu')], rule: torchrec_io._core.ViewRule, max_scans: int, keys: bytes | None = None, tables: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, *, fast: bool = False) -> list[int]:
    """
    Decode those images of a column that are valid JPEGs.

    Args:
        records: Records that hold the images.
        which: Position of the record of each image.
        offsets: Offset of each image in its record.
        sizes: Bytes of each image.
        targets: Arrays of the images, `[n, height, width, channels]`, with any strides.
        rule: Which part of each image is used. Pixels around it are not written.
        max_scans: Most scans that an image may have.
        keys: Key of the random numbers of each image; 16 bytes each.
        tables: As for `decode_jpegs`.
        fast: Use the fast DCT.

    Returns:
        The positions of the other images. Their targets may have any content.
    """
