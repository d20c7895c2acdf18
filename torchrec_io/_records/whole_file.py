"""Whole files as records."""

from __future__ import annotations

import os

import numpy as np

from .._storage.byte_source import ByteSource, find_size
from .._storage.compression import Compression
from .._storage.digest import digest_number
from .formats import Progress, RecordFormat, ScanResult


class WholeFile(RecordFormat):
    """Each file is one record, even if it is empty. Its key is its path.

    As for TensorFlow's ``WholeFileReader`` (2.21), compressed content is not decompressed. Name and
    size identify a file, so that no file is read before it is needed. A file has changed if its
    time of last change has.
    """

    name = "whole file"
    is_cached = False  # the index follows from the file's size

    def detect(self, file: ByteSource) -> Compression | None:
        del file
        return None

    def scan(self, source: ByteSource, progress: Progress) -> ScanResult:
        size, error = find_size(source, lambda done: progress(done, 0))
        return ScanResult(np.zeros(1, np.uint64), size, error)

    def key(self, path: str, record: int, offset: int) -> str:
        del record, offset
        return path

    def fingerprint(self, file: ByteSource, size: int) -> int:
        return digest_number(os.fsencode(os.path.basename(file.path)), f"/{size}")
