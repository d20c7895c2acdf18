"""Schemas as JSON: a valid one is equal after each of its text forms, any other a SchemaError.

Input: JSON.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torchrec_io as tio
from torchrec_io.errors import SchemaError

_KINDS: tuple[Any, ...] = (tio.Schema, tio.ranking.Schema)
# What Python code of a schema consists of. Nothing else is evaluated below.
_HARMLESS = (
    ast.Module,
    ast.Assign,
    ast.Import,
    ast.alias,
    ast.Call,
    ast.Name,
    ast.Load,
    ast.Store,
    ast.Attribute,
    ast.Constant,
    ast.Dict,
    ast.List,
    ast.Tuple,
    ast.UnaryOp,
    ast.USub,
    ast.keyword,
)


def check(data: bytes) -> None:
    for kind in _KINDS:
        try:
            schema = kind.from_json(data)
        except SchemaError as error:
            assert len(str(error)) < 2000, "the message repeats the input"
            continue
        json.loads(data)  # no more than Python accepts
        assert kind.from_json(schema.to_json()) == schema
        assert kind.from_json(schema.to_json(indent=1).encode()) == schema
        if kind is tio.Schema:
            assert _evaluate(schema.to_python()) == schema


def _evaluate(code: str) -> Any:
    tree = ast.parse(code)
    for node in ast.walk(tree):
        assert isinstance(node, _HARMLESS), f"{type(node).__name__} in the code of a schema"
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func).startswith(("tio.", "float")), "a call of something else"
    found: dict[str, Any] = {}
    exec(compile(tree, "schema", "exec"), found)  # noqa: S102  # it was checked
    return found["schema"]


def seeds() -> Iterator[bytes]:
    word = tio.FixedLenFeature([], "string", default_value=b"\xff")
    specs: dict[str, Any] = {
        "fixed": tio.FixedLenFeature([2, 3], "float32", default_value=[[0.5, 1, 2], [3, 4, 5]]),
        "word": word,
        "list": tio.VarLenFeature("int64", valid_range=(0, None)),
        "ragged": tio.RaggedFeature("float32", partitions=[tio.RaggedFeature.RowSplits("at")]),
        "sparse": tio.SparseFeature("at", "value", "float32", 9),
        "raw": tio.RawFeature("uint8", [None, 3], dequantize=(0, 1)),
        "tensor": tio.SerializedTensorFeature("float64", [2]),
        "image": tio.ImageFeature(size=(8, 9), max_pixels=1000),
        "normalized": tio.ImageFeature(
            size=(8, 8),
            dtype="bfloat16",
            resize="cover",
            augment=tio.RandomFlip(0.25),
            mean=(0.5, 0.25, 0),
            std=(1, 2, 0.5),
            short_side=9,
            fast=True,
        ),
        "mask": tio.ImageFeature(
            1,
            size=(8, 9),
            augment=tio.RandomResizedCrop(group="view"),
            filter="nearest",
            palette="index",
            names=("a", "b"),
        ),
        "images": tio.SequenceFeature(tio.ImageFeature(channels=1)),
        "renamed": tio.ImageFeature(
            key="image/encoded", jitter=tio.ColorJitter(0.4, (0, 2), 0.2, (-0.1, 0.5), p=0.8)
        ),
    }
    for name, spec in specs.items():
        yield tio.Schema({name: spec}).to_json().encode()
    view = tio.RandomResizedCrop(group="view")
    followed = {
        "pixels": tio.RawFeature(
            "uint8", (None, None, 3), ["height", "width", "channel"], size=(8, 9), augment=view
        ),
        "boxes": tio.BoxFeature(("y0", "x0", "y1", "x1"), group="view", min_size=2.5),
        "points": tio.KeypointFeature("xy", group="view", format="xy", normalized=False),
    }
    yield tio.Schema(followed).to_json().encode()
    yield tio.Schema({"a": {"b": {"c": word}}}).to_json().encode()
    steps: dict[str, Any] = {"s": tio.FixedLenSequenceFeature([], "int64")}
    yield tio.Schema(context={"c": word}, sequence=steps).to_json(indent=2).encode()
    yield tio.ranking.Schema(context={"c": word}, examples={"e": word}).to_json().encode()
    folder = Path(__file__).parents[2] / "data" / "tfds"
    for name in ("scalars", "ragged", "images", "sequences"):
        for features in sorted(folder.glob(f"{name}/*/features.json")):
            yield tio.Schema.from_tfds(features.parent).to_json().encode()
