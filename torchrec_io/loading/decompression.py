"""Compressed files of a dataset, for descriptions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..datasets.base import RecordDataset
from ..datasets.map_style import TFRecordMapDataset
from ..storage.compression import Compression
from ..storage.decoder import decompresses_natively


def describe_decompression(dataset: Any) -> Iterator[str]:
    """Yield what decompresses gzip and zlib files, if the dataset is known to have some."""
    kinds = sorted(_compressions_of(dataset) & {"gzip", "zlib"})
    if kinds:
        how = "natively by ISA-L"
        if not decompresses_natively():
            how = "by the package isal; a build with ISA-L is faster"
        yield f"decompressed: {' and '.join(kinds)} files, {how}"


def _compressions_of(dataset: Any) -> frozenset[Compression]:
    if isinstance(dataset, RecordDataset):
        return dataset.session.pipeline.loader.reader.compressions
    if isinstance(dataset, TFRecordMapDataset):
        return dataset.record_reader.compressions
    return frozenset()
