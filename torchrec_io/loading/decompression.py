"""Compressed files of a dataset, for descriptions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..storage.decoder import decompresses_natively


def describe_decompression(dataset: Any) -> Iterator[str]:
    """Yield what decompresses gzip and zlib files, if an indexed dataset has some."""
    pipeline = getattr(getattr(dataset, "session", None), "pipeline", None)
    indexes = getattr(getattr(pipeline, "records", None), "indexes", ())
    kinds = sorted({index.compression for index in indexes} & {"gzip", "zlib"})
    if kinds:
        how = "natively by ISA-L"
        if not decompresses_natively():
            how = "by the package isal, as this build has no ISA-L, which is faster"
        yield f"decompressed: {' and '.join(kinds)} files, {how}"
