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
