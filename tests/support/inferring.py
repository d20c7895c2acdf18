"""Records of plain values, and the schema inferred from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.examples import sequence_example_of as sequence_of
from tests.support.tfrecord import write_tfrecord
from torchrec_io.inspection.inference import Finding

__all__ = ["Values", "example_of", "finding", "infer", "rows_of", "sequence_of"]

Values = tuple[str, list[Any]]  # kind and values; kind "none" is a feature without a list


def infer(tmp_path: Path, records: list[bytes], **options: Any) -> tio.Schema:
    return tio.Schema.infer(write_tfrecord(tmp_path / "x", records), **options)


def finding(schema: tio.Schema, name: str) -> Finding:
    assert schema.findings is not None
    found = schema.findings[name]
    assert found.spec == schema.get(name)
    return found


def rows_of(batch: tio.Batch) -> int:
    return len(next(iter(batch.values())))
