"""Text lines and records of a fixed length, compared with Python's own slicing.

Input: options (1 byte), sizes of records, header and footer (3 bytes), a file.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

import numpy as np

import torchrec_io as tio
from tests.fuzz.python.inputs import cut_options, empty_folder
from torchrec_io.errors import TruncatedFileError

_FIXED, _GZIP = 1, 2


def check(data: bytes) -> None:
    (bits, size, header, footer), file = cut_options(data, 4)
    with empty_folder() as folder:
        path = folder / "data"
        path.write_bytes(gzip.compress(file, 1, mtime=0) if bits & _GZIP else file)
        options: dict[str, Any] = {"compression": "gzip" if bits & _GZIP else None}
        if bits & _FIXED:
            _check_fixed(path, file, (1 + size % 16, header % 16, footer % 16), options)
        else:
            _check_lines(path, file, header % 4, options)


def _check_lines(path: Any, file: bytes, skipped: int, options: dict[str, Any]) -> None:
    lines = file.split(b"\n")
    last = lines.pop()
    lines = [line.removesuffix(b"\r") for line in lines]
    if last.removesuffix(b"\r"):  # an empty last line is not a record
        lines.append(last.removesuffix(b"\r"))
    dataset = tio.TextLineDataset(path, skip_header_lines=skipped, **options)
    _check_same(dataset, lines[skipped:])


def _check_fixed(
    path: Any, file: bytes, sizes: tuple[int, int, int], options: dict[str, Any]
) -> None:
    size, header, footer = sizes
    room = len(file) - header - footer
    records = [file[at : at + size] for at in range(header, header + room - size + 1, size)]
    try:
        dataset = tio.FixedLengthRecordDataset(
            path, size, header_bytes=header, footer_bytes=footer, **options
        )
        found = [bytes(record) for record in dataset]
    except TruncatedFileError:
        assert room < 0 or room % size, "a file without left-over bytes was refused"
        return
    assert room >= 0, "a file that is too short was accepted"
    assert room % size == 0, "left-over bytes were ignored"
    assert found == records
    _check_same(dataset, records)


def _check_same(dataset: Any, records: list[bytes]) -> None:
    assert len(dataset) == len(records)
    assert [bytes(record) for record in dataset] == records, "other records"
    backwards = dataset.select(np.arange(len(records))[::-1].copy())
    assert sorted(bytes(record) for record in backwards) == sorted(records)


def seeds() -> Iterator[bytes]:
    files = [b"a\nbc\r\n\nlast", b"\n\r\n\r", b"", b"x\r\r\n\ny\n", bytes(range(64))]
    for file in files:
        for bits in range(4):
            yield bytes([bits, 3, 0, 0]) + file
            yield bytes([bits, 1, 2, 2]) + file
