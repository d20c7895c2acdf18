"""Decompression of whole files."""

from __future__ import annotations

from torchrec_io._storage.inflater import Inflater
from torchrec_io.errors import CorruptRecordError, TorchRecIOError, TruncatedFileError


def read_all(inflater: Inflater, step: int) -> tuple[bytes, TorchRecIOError | None]:
    """Return all bytes, in chunks of a size, and the damage that ends them."""
    out = bytearray()
    try:
        while data := inflater.read(step):
            out += data
    except (CorruptRecordError, TruncatedFileError) as error:
        assert error.offset == len(out), "the damage is somewhere else"  # noqa: PT017
        return bytes(out), error
    return bytes(out), None
