"""
PNG decoding of torchrec_io. Private: its names may change in any release.

It is missing from builds without libdeflate.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray

import torchrec_io._core


def stop_daemons() -> bool: ...

def stay_if_exiting() -> None: ...

def decode_pngs(images: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]], views: Sequence[torchrec_io._core.ImageView], targets: Sequence[Annotated[NDArray, dict(shape=(None, None, None), device='cpu')]], tables: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> list[tuple[int, str]]:
    """
    Decode parts of PNGs into arrays.

    The PNGs must have 8 bits a channel, no palette, and not be interlaced.

    Args:
        images: PNGs; uint8 `[size]` each.
        views: Part of each image.
        targets: Array of each image, `[height, width, 1 or 3]`, with any strides.
        tables: Values to write for the levels 0 to 255 of each channel, as bytes; by
            default the levels, for targets of uint8.

    Returns:
        The position of each image that cannot be decoded, with the reason.
    """
