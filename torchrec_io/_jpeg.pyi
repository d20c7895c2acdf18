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

def read_header(image: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[int, int, int]:
    """
    Return the height, width and number of components of an image file; uint8 `[size]`.

    Raises:
        ValueError: If it cannot be decoded, with the reason.
    """

def decode_image(image: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], view: torchrec_io._core.ImageView, target: Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None), device='cpu')], *, fast: bool = False) -> None:
    """
    Decode a part of an image file.

    Args:
        image: The file; uint8 `[size]`.
        view: The part.
        target: Array for its pixels; uint8 `[height, width, channels]`, with any strides.
        fast: Use the fast DCT.

    Raises:
        ValueError: If it cannot be decoded, with the reason.
    """

def find_views(images: torchrec_io._core.StoredImages, column: torchrec_io._core.ImageColumn, threads: int) -> None:
    """
    Find those views of a column that are not known, of valid images of this format.
    """

def decode_columns(images: torchrec_io._core.StoredImages, columns: Sequence[torchrec_io._core.ImageColumn], threads: int, *, fast: bool = False) -> int:
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
