"""Arguments of feature specs and schemas."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from torchrec_io._schema.dtypes import (
    dtype_name,
    is_integer_dtype,
    item_bytes,
    numeric_bytes,
)
from torchrec_io._schema.image_spec import ImageFeature
from torchrec_io._schema.schema import Schema
from torchrec_io._schema.specs import FixedLenFeature, VarLenFeature
from torchrec_io._schema.stored_specs import RawFeature
from torchrec_io.errors import SchemaError

INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool")
FLOATS = ("float32", "float64", "float16", "bfloat16")


# ---- dtypes ----


@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
def test_every_way_to_name_a_number(name: str) -> None:
    assert dtype_name(name) == name
    assert dtype_name(getattr(torch, name)) == name
    assert dtype_name(f"torch.{name}") == name
    if name != "bfloat16":
        assert dtype_name(np.dtype(name)) == name
        assert dtype_name(np.dtype(name).type) == name
        assert dtype_name(np.dtype(name).newbyteorder(">")) == name
    assert item_bytes(name) == getattr(torch, name).itemsize


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (int, "int64"),
        (float, "float32"),
        (bool, "bool"),
        (np.bool_, "bool"),
        ("bool_", "bool"),
        ("float", "float32"),
        ("double", "float64"),
        ("half", "float16"),
        (torch.float, "float32"),
        (torch.half, "float16"),
        (torch.long, "int64"),
        (np.single, "float32"),
        (np.intp, "int64"),
    ],
)
def test_other_names_of_numbers(dtype: Any, name: str) -> None:
    assert dtype_name(dtype) == name


@pytest.mark.parametrize(
    "dtype",
    [
        "string",
        "bytes",
        "str",
        "object",
        str,
        bytes,
        object,
        np.str_,
        np.bytes_,
        np.object_,
        np.dtype("S5"),
        np.dtype("U40"),
        np.dtype(object),
    ],
)
def test_every_way_to_name_bytes(dtype: Any) -> None:
    assert dtype_name(dtype) == "string"


class LikeTensorFlow:
    """As ``tf.int64`` is: an object with a name."""

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.mark.parametrize("name", ["int64", "float32", "string", "bool", "bfloat16"])
def test_dtypes_of_other_packages_go_by_their_name(name: str) -> None:
    assert dtype_name(LikeTensorFlow(name)) == name


@pytest.mark.parametrize(
    "dtype",
    [
        "int128",
        "complex64",
        "",
        "Int64",
        "bytes_long",
        "qint8",
        None,
        5,
        list,
        torch.complex64,
        np.complex128,
        np.dtype("M8[s]"),
        LikeTensorFlow("resource"),
    ],
)
def test_other_dtypes_are_refused_with_those_there_are(dtype: Any) -> None:
    with pytest.raises(SchemaError, match=r"must be one of int64, .*bfloat16, string, got"):
        dtype_name(dtype)


# ---- shapes ----


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ([], ()),
        ((), ()),
        (3, (3,)),
        (np.int32(3), (3,)),
        ([2, 3], (2, 3)),
        ((2, 0), (2, 0)),
        (np.array([2, 3]), (2, 3)),
        (torch.Size([4, 5]), (4, 5)),
        (range(1, 3), (1, 2)),
        ([2**29, 2**30], (2**29, 2**30)),
    ],
)
def test_shapes(shape: Any, expected: tuple[int, ...]) -> None:
    feature = FixedLenFeature(shape, "int64")
    assert feature.shape == expected
    assert all(type(size) is int for size in feature.shape)
    assert feature.count == int(np.prod(expected))
    assert RawFeature("int8", shape).shape == expected


@pytest.mark.parametrize(
    "shape",
    [
        [-1],
        -1,
        [None],
        [2, None],
        [2.0],
        2.5,
        "3",
        [True],
        True,
        None,
        [2**30, 2**30],
        [2**32, 2**32],
        2**64,
    ],
)
def test_other_shapes_are_refused(shape: Any) -> None:
    with pytest.raises(SchemaError, match="shape"):
        FixedLenFeature(shape, "int64")
    if shape not in (None, [None], [2, None]):  # one size may be found
        with pytest.raises(SchemaError, match="shape"):
            RawFeature("int64", shape)


# ---- FixedLenFeature ----


@pytest.mark.parametrize(
    ("shape", "dtype", "default", "expected"),
    [
        ([], "int64", None, None),
        ([], "int64", 3, (3,)),
        ([], "int64", [3], (3,)),
        ([1], "int64", 3, (3,)),
        ([2, 2], "int64", [1, 2, 3, 4], (1, 2, 3, 4)),
        ([4], "int64", [[1, 2], [3, 4]], (1, 2, 3, 4)),
        ([2], "int64", (1, 2), (1, 2)),
        ([2], "int64", np.array([1, 2]), (1, 2)),
        ([2], "int64", np.array([1, 2], np.uint8), (1, 2)),
        ([2], "int64", torch.tensor([1, 2]), (1, 2)),
        ([2], "int64", [np.int16(1), np.uint64(2)], (1, 2)),
        ([], "int64", -(2**63), (-(2**63),)),
        ([], "uint64", 2**64 - 1, (2**64 - 1,)),
        ([], "int8", -128, (-128,)),
        ([], "bool", True, (1,)),
        ([2], "bool", np.array([True, False]), (1, 0)),
        ([2], "bool", [np.True_, np.False_], (1, 0)),
        ([], "bool", 1, (1,)),
        ([], "float32", 3, (3.0,)),
        ([], "float32", 0.1, (0.1,)),
        ([], "float32", np.float16(1.5), (1.5,)),
        ([], "float16", 65504, (65504.0,)),
        ([], "bfloat16", 3.0e38, (3.0e38,)),
        ([2], "float32", [float("inf"), float("-inf")], (float("inf"), float("-inf"))),
        ([], "string", "é", (b"\xc3\xa9",)),
        ([], "string", b"\xff", (b"\xff",)),
        ([2], "string", ["a", bytearray(b"b")], (b"a", b"b")),
        ([], "string", "", (b"",)),
        ([1], "string", np.array(["ab"]), (b"ab",)),
        # An empty default is none at all, as in TensorFlow.
        ([0], "int64", [], None),
        ([2, 0], "string", [[], []], None),
    ],
)
def test_defaults(shape: Any, dtype: Any, default: Any, expected: Any) -> None:
    feature = FixedLenFeature(shape, dtype, default)
    assert feature.default_value == expected
    if expected is not None:
        kind = bytes if dtype == "string" else int if is_integer_dtype(dtype) else float
        assert {type(value) for value in feature.default_value} == {kind}


@pytest.mark.parametrize(
    ("shape", "dtype", "default", "reason"),
    [
        ([2], "int64", 1, "default_value must have 2 values for the shape .2., got 1"),
        ([2], "int64", [1, 2, 3], "default_value must have 2 values .* got 3"),
        ([], "int64", [], "default_value must have 1 value for .* got 0"),
        ([0], "int64", 0, "default_value must have 0 values .* got 1"),
        ([], "int64", 1.0, "must be integers for int64"),
        ([], "int64", np.float32(1), "must be integers for int64"),
        ([], "int64", True, "must be numbers"),
        ([], "int64", "1", "must be numbers"),
        ([], "int64", 2**63, "must fit in int64"),
        ([], "int64", -(2**63) - 1, "must fit in int64"),
        ([], "int32", 2**31, "must fit in int32"),
        ([], "int16", -(2**15) - 1, "must fit in int16"),
        ([], "uint8", -1, "must fit in uint8"),
        ([], "uint8", 256, "must fit in uint8"),
        ([], "uint64", -1, "must fit in uint64"),
        ([], "bool", 2, "must fit in bool"),
        ([], "float32", "1", "must be numbers"),
        ([], "float32", True, "must be numbers"),
        ([], "float32", 1 + 2j, "must be numbers"),
        ([], "float32", 1e39, "must fit in float32"),
        ([], "float32", -(10**400), "must fit in float32"),
        ([], "float64", 10**400, "must fit in float64"),
        ([], "float16", 65520, "must fit in float16"),
        ([], "bfloat16", -3.4e38, "must fit in bfloat16"),
        ([], "string", 1, "must be str or bytes"),
        ([], "string", {"a": 1}, "must be str or bytes"),
    ],
)
def test_other_defaults_are_refused(shape: Any, dtype: Any, default: Any, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        FixedLenFeature(shape, dtype, default)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_numbers_as_a_column_stores_them(dtype: str) -> None:
    values: list[float] = [0, 1] if dtype == "bool" else [0, 1, 2, 100]
    if dtype in FLOATS:
        values = [0.0, -0.0, 1.5, 1 / 3, -1e-7, 65504.0, float("inf"), 2.0**-24]
    expected = torch.tensor(values, dtype=torch.float64 if dtype in FLOATS else torch.int64)
    expected = expected.to(getattr(torch, dtype)).contiguous()
    assert numeric_bytes(values, dtype) == expected.view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize(
    ("dtype", "end"),
    [
        ("float64", 2**1024 - 2**970),
        ("float32", 2**128 - 2**103),
        ("bfloat16", 2**128 - 2**119),
        ("float16", 65520),
    ],
)
def test_defaults_up_to_where_they_would_round_to_infinity(dtype: Any, end: int) -> None:
    largest = int(torch.finfo(getattr(torch, dtype)).max)
    assert largest < end
    for sign in (1, -1):
        assert FixedLenFeature([], dtype, sign * largest).default_value == (sign * largest,)
        with pytest.raises(SchemaError, match="must fit in"):
            FixedLenFeature([], dtype, sign * end)
        if dtype != "float64":
            below = sign * float(end) * (1 - 2**-20)
            assert FixedLenFeature([], dtype, below).default_value == (below,)
            stored = bytearray(numeric_bytes([below], dtype))
            assert torch.frombuffer(stored, dtype=getattr(torch, dtype)).isfinite().all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_stored_nan_is_a_nan(dtype: str) -> None:
    stored = bytearray(numeric_bytes([float("nan")], dtype))
    assert torch.frombuffer(stored, dtype=getattr(torch, dtype)).isnan().all()


# ---- RawFeature and ImageFeature ----


def test_the_shape_of_an_image_feature() -> None:
    default = ImageFeature()
    assert (default.channels, default.dtype, default.layout, default.size) == (
        3,
        "uint8",
        "CHW",
        None,
    )
    assert default.shape_of(4, 5) == (3, 4, 5)
    assert ImageFeature(1, layout="HWC").shape_of(4, 5) == (4, 5, 1)
    assert ImageFeature(dtype=torch.float32).dtype == "float32"
    assert ImageFeature(size=[4, 5]).size == (4, 5)


# ---- Schema ----

FEATURES: dict[str, Any] = {
    "a": FixedLenFeature([2], "int64", [1, 2]),
    "b": VarLenFeature("string"),
    "c": RawFeature("float32", shape_key="a"),
    "d": ImageFeature(),
}


def test_a_schema_is_a_mapping_in_its_order() -> None:
    schema = Schema(dict(FEATURES))
    assert list(schema) == ["a", "b", "c", "d"]
    assert len(schema) == 4
    assert dict(schema) == FEATURES
    assert schema["b"] == VarLenFeature("bytes")
    assert "b" in schema
    assert "z" not in schema
    assert Schema.of(schema) is schema
    assert Schema.of(FEATURES) == schema
    with pytest.raises(KeyError):
        schema["z"]


def test_a_schema_does_not_change_with_the_dict_it_was_made_from() -> None:
    features = dict(FEATURES)
    schema = Schema(features)
    features.clear()
    assert len(schema) == 4


def test_specs_cannot_be_changed() -> None:
    for value in FEATURES.values():
        name = dataclasses.fields(value)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, None)
    schema = Schema(FEATURES)
    with pytest.raises(AttributeError):
        schema.context = {}  # type: ignore[misc]  # read-only
    with pytest.raises(TypeError):
        schema.context["new"] = VarLenFeature("int64")  # type: ignore[index]  # read-only


@pytest.mark.parametrize("features", [{}, None, [], "a", [("a", VarLenFeature("int64"))]])
def test_a_schema_needs_features(features: Any) -> None:
    with pytest.raises(SchemaError, match="at least one feature"):
        Schema(features)


@pytest.mark.parametrize(
    "shape",
    [VarLenFeature("int64"), FixedLenFeature([2], "int32"), FixedLenFeature([], "uint8"), None],
)
def test_a_shape_key_may_name_an_integer_feature_or_none_of_the_schema(shape: Any) -> None:
    features: dict[str, Any] = {"x": RawFeature("int8", shape_key="shape")}
    if shape is not None:
        features["shape"] = shape
    assert len(Schema(features)) == len(features)


@pytest.mark.parametrize(
    "shape",
    [
        VarLenFeature("float32"),
        FixedLenFeature([2], "string"),
        RawFeature("int64", [2]),
        ImageFeature(),
    ],
)
def test_a_shape_key_may_name_no_other_feature(shape: Any) -> None:
    with pytest.raises(SchemaError, match="must name an integer feature, got 'shape'") as caught:
        Schema({"x": RawFeature("int8", shape_key="shape"), "shape": shape})
    assert caught.value.feature == "x"


def test_a_shape_key_may_not_name_its_own_feature() -> None:
    with pytest.raises(SchemaError, match="must name an integer feature"):
        Schema({"x": RawFeature("int8", shape_key="x")})
