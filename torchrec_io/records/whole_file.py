"""Whole files as records."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import numpy.typing as npt

from ..storage.compressed import CompressedFile, Compression
from ..storage.local import LocalFile
from .custom_format import stream_size
from .formats import Cut, Progress, RecordFormat, Scan


class WholeFile(RecordFormat):
    """Each file is one record, an empty one too, and its key is its path.

    As TensorFlow's ``WholeFileReader`` (2.21) has it: what is in a file is given as it is,
    compressed or not. A file is told from others by its name and size, so that none is read before
    it is needed; and it has changed if its time of last change has.
    """

    name = "whole file"
    is_kept = False  # it is only arithmetic
    misplaced = "it was changed since it was found"

    def detect(self, file: LocalFile) -> Compression | None:
        del file
        return None

    def scan(self, source: LocalFile | CompressedFile, progress: Progress | None = None) -> Scan:
        size, error = stream_size(source, progress)
        return Scan(np.zeros(1, np.uint64), size, error)

    def cut(
        self,
        buffer: npt.NDArray[np.uint8],
        placed: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        verify_crc: bool,
    ) -> Cut:
        del verify_crc
        return Cut(buffer, placed, sizes, ())

    def key(self, path: str, record: int, offset: int) -> str:
        del record, offset
        return path

    def fingerprint(self, file: LocalFile, size: int) -> int:
        text = os.fsencode(os.path.basename(file.path)) + b"/%d" % size
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")

    def first_misplaced(
        self, file: LocalFile, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
    ) -> int | None:
        del file, starts, ends
        return 0
