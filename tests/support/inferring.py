"""Records of plain values, and the schema inferred from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torchrec_io as tio
from tests.support.messages import Example, SequenceExample
from tests.support.tfrecord import write_tfrecord
from torchrec_io.inspection.inference import Finding

FIELDS = {"bytes": "bytes_list", "float": "float_list", "int64": "int64_list"}

Values = tuple[str, list[Any]]  # kind and values; kind "none" is a feature without a list


def fill(feature: Any, kind: str, values: list[Any]) -> None:
    if kind != "none":
        getattr(feature, FIELDS[kind]).SetInParent()
        getattr(feature, FIELDS[kind]).value.extend(values)


def example_of(**features: Any) -> bytes:
    """Return an Example of lists of values, or of ``(kind, values)``."""
    message = Example()
    for name, values in features.items():
        fill(message.features.feature[name], *kinded(values))
    data: bytes = message.SerializeToString()
    return data


def sequence_of(context: dict[str, Any], lists: dict[str, Any]) -> bytes:
    """Return a SequenceExample of lists of values, or of ``(kind, values)``."""
    message = SequenceExample()
    for name, values in context.items():
        fill(message.context.feature[name], *kinded(values))
    for name, steps in lists.items():
        target = message.feature_lists.feature_list[name]
        for step in steps:
            fill(target.feature.add(), *kinded(step))
    data: bytes = message.SerializeToString()
    return data


def kinded(values: list[Any] | Values) -> Values:
    if isinstance(values, tuple):
        return values
    kinds = {bytes: "bytes", float: "float", int: "int64"}
    return kinds[type(values[0])], values


def infer(tmp_path: Path, records: list[bytes], **options: Any) -> tio.Schema:
    return tio.Schema.infer(write_tfrecord(tmp_path / "x", records), **options)


def finding(schema: tio.Schema, name: str) -> Finding:
    assert schema.findings is not None
    found = schema.findings[name]
    assert found.spec == schema.get(name)
    return found


def rows_of(batch: tio.Batch) -> int:
    return len(next(iter(batch.values())))
