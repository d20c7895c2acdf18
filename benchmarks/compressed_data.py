"""Gzip files of tabular records for benchmarks: one member each, as TensorFlow writes them."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from isal import isal_zlib

import torchrec_io as tio

FLOATS, CATEGORIES = 13, 26
_RECORDS = 20_000  # written again and again: deflate does not see so far back
_HEADER = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
_LAST_BLOCK = b"\x03\0"  # empty, with the fixed codes


def schema() -> dict[str, tio.FixedLenFeature]:
    """Return the schema of the records."""
    names = [f"f{i}" for i in range(FLOATS)]
    specs = dict.fromkeys(names, tio.FixedLenFeature([], "float32"))
    for name in ["label", *(f"c{i}" for i in range(CATEGORIES))]:
        specs[name] = tio.FixedLenFeature([], "int64")
    return specs


def make_file(path: Path, size: int) -> int:
    """Write a gzip file of at least a size, and return its number of records."""
    stream = _stream(path.with_suffix(".part"))
    maker = zlib.compressobj(6, wbits=-15)
    body = maker.compress(stream) + maker.flush(zlib.Z_FULL_FLUSH)
    repeats = -(-size // len(body))
    check = 0
    with open(path, "wb") as file:
        file.write(_HEADER)
        for _ in range(repeats):
            file.write(body)
            check = isal_zlib.crc32(stream, check)
        file.write(_LAST_BLOCK + check.to_bytes(4, "little"))
        file.write((repeats * len(stream) & 0xFFFF_FFFF).to_bytes(4, "little"))
    return repeats * _RECORDS


def _stream(path: Path) -> bytes:
    """Return the records as TFRecord frames."""
    rng = np.random.default_rng(0)
    floats = rng.standard_normal((_RECORDS, FLOATS)).astype(np.float32)
    categories = (rng.pareto(0.3, (_RECORDS, CATEGORIES)) % (1 << 20)).astype(np.int64)
    with tio.TFRecordWriter(path) as writer:
        for number in range(_RECORDS):
            record: dict[str, Any] = {f"f{i}": floats[number, i : i + 1] for i in range(FLOATS)}
            record |= {f"c{i}": categories[number, i : i + 1] for i in range(CATEGORIES)}
            writer.write(tio.encode_example({"label": np.array([number % 2]), **record}))
    stream = path.read_bytes()
    path.unlink()
    return stream
