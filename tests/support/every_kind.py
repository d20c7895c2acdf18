"""A batch with a column of every kind."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from PIL import Image
from torch import Tensor

import torchrec_io as tio
from tests.support.examples import example_of, sequence_example_of

SCHEMA = tio.Schema(
    context={
        "id": tio.FixedLenFeature([], "int64"),
        "scores": tio.FixedLenFeature([2], "float32"),
        "name": tio.FixedLenFeature([], "string"),
        "tokens": tio.VarLenFeature("int64"),
        "narrow": tio.RaggedFeature("float32", row_splits_dtype="int32"),
        "words": tio.VarLenFeature("string"),
        "image": tio.ImageFeature(),
        "arrays": tio.SequenceFeature(tio.RawFeature("uint8", [None])),
    },
    sequence={
        "steps": tio.VarLenFeature("int64"),
        "padded": tio.FixedLenSequenceFeature([], "int64"),
        "labels": tio.FixedLenSequenceFeature([], "string"),
        "frames": tio.SequenceFeature(tio.RawFeature("uint8", [2], dequantize=(0, 1))),
    },
)
SPARSE = {"sparse": tio.SparseFeature("at", "value", "float32", 9)}


def record(i: int) -> bytes:
    image = io.BytesIO()
    picture = Image.new("RGB", (1 + i % 3, 2 + i % 2), (i % 256, 2, 3))
    picture.save(image, "JPEG" if i % 2 else "PNG")
    return sequence_example_of(
        {
            "id": [i],
            "scores": [i + 0.5, -1.0],
            "name": [b"n%d" % i],
            "tokens": list(range(i % 4)),
            "narrow": [0.5 * i] * (i % 3),
            "words": [b"w%d" % n for n in range(i % 5)],
            "image": [image.getvalue()],
            "arrays": [bytes(i % 3)] * (i % 4),
        },
        {
            "steps": [[i] * n for n in range(i % 3)],
            "padded": [[i]] * (i % 4),
            "labels": [[b"l%d" % i]] * (i % 3),
            "frames": [[bytes([i % 256, 255])]] * (i % 3),
        },
    )


def make_batch(count: int = 5, first: int = 0) -> tio.Batch:
    """Return a batch in one arena: parsed, and collated with a Sparse."""
    numbers = range(first, first + count)
    batch = tio.parse_sequence_examples([record(i) for i in numbers], SCHEMA)
    sparse = tio.parse_examples([example_of(at=[i % 9], value=[float(i)]) for i in numbers], SPARSE)
    return tio.collate(
        [
            tio.Sample(sample | other, sample.ragged, sample.padded, sample.axes)
            for sample, other in zip(batch.samples(), sparse.samples(), strict=True)
        ]
    )


def tensors_of(value: Any) -> Iterator[Tensor]:
    """Yield all tensors of a column."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tio.BytesArray):
        yield from (value.data, value.offsets)
    elif isinstance(value, tio.Ragged):
        yield from (*tensors_of(value.values), value.offsets)
    elif isinstance(value, tio.Sparse):
        yield from (*tensors_of(value.values), value.indices)
    else:
        yield from (tensor for item in value for tensor in tensors_of(item))


def all_tensors(batch: tio.Batch) -> list[Tensor]:
    """Return the tensors of all columns, and the lengths."""
    values = [*batch.values(), *batch.lengths.values()]
    return [tensor for value in values for tensor in tensors_of(value)]


def plain(value: Any) -> Any:
    """Convert a column to Python numbers, bytes and lists."""
    if isinstance(value, tio.Sparse):
        return value.to_coo().to_dense().tolist()
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.tolist()


def contents(batch: tio.Batch) -> dict[str, Any]:
    """Convert all columns and lengths of a batch with :func:`plain`."""
    lengths = {f"lengths of {name}": value for name, value in batch.lengths.items()}
    return {name: plain(value) for name, value in {**dict(batch), **lengths}.items()}
