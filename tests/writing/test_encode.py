"""Encoding of Examples, compared with protobuf's serializer and parsed back."""

from __future__ import annotations

import collections
import enum
import math
import struct
import threading
import types
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.encoding import (
    EXAMPLES,
    NAMES,
    NO_KIND,
    Case,
    Stored,
    example_bytes,
    features_bytes,
    floats,
    given_part,
    ints,
    plain_cases,
    stored_part,
    texts,
)
from tests.support.messages import Example
from tests.support.wire import delimited


@given(EXAMPLES)
def test_bytes_equal_those_of_protobuf(example: dict[str, Case]) -> None:
    encoded = tio.encode_example(given_part(example))
    assert encoded == delimited(1, features_bytes(stored_part(example)))
    message = Example.FromString(encoded)
    assert set(message.features.feature) == set(example)


@given(st.lists(st.dictionaries(st.sampled_from("abcdé"), plain_cases()), max_size=5))
def test_round_trip_of_values(examples: list[dict[str, Case]]) -> None:
    kinds = {(name, case.stored.kind) for example in examples for name, case in example.items()}
    if len({name for name, _ in kinds}) < len(kinds):
        with pytest.raises(TypeError, match="those of an earlier record are"):
            tio.encode_examples(map(given_part, examples))
        return
    encoded = tio.encode_examples(map(given_part, examples))
    assert encoded == [tio.encode_example(given_part(example)) for example in examples]
    for example, record in zip(examples, encoded, strict=True):
        for name, (stored_kind, values) in stored_part(example).items():
            assert stored_kind is not None
            kind: Any = stored_kind
            column = tio.parse_examples([record], {name: tio.VarLenFeature(kind)})[name]
            [row] = column.tolist()
            if kind == "float32":
                assert struct.pack(f"<{len(row)}f", *row) == struct.pack(f"<{len(row)}f", *values)
            else:
                assert row == values


@given(st.lists(NAMES, unique=True, max_size=30), st.randoms())
def test_names_are_sorted_by_their_bytes(names: list[str], random: Any) -> None:
    shuffled = random.sample(names, len(names))
    encoded = tio.encode_example(dict.fromkeys(names, 7))
    assert encoded == tio.encode_example(dict.fromkeys(shuffled, 7))
    assert encoded == delimited(1, features_bytes(dict.fromkeys(names, ints(7))))


def test_empty_example_has_an_empty_map() -> None:
    message = Example()
    message.features.SetInParent()
    assert tio.encode_example({}) == message.SerializeToString() == b"\x0a\x00"
    assert tio.encode_examples([{}, {}]) == [b"\x0a\x00"] * 2
    assert tio.encode_examples([]) == []


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ([True, 2], ints(1, 2)),
        (bytearray(b"ab"), texts(b"ab")),
        (memoryview(b"abcd")[::2], texts(b"ac")),
        ([b"a", "é", bytearray(b"c"), memoryview(b"d")], texts(b"a", "é".encode(), b"c", b"d")),
        (np.bytes_(b"a"), texts(b"a")),
        ([np.float32(0.5), 2], floats(0.5, 2)),
        ([np.bool_(1), 0.5], floats(1, 0.5)),
        ([2**70, 0.5], floats(2**70, 0.5)),
        ([np.arange(2), [3.5, 2], torch.ones(2)], floats(0, 1, 3.5, 2, 1, 1)),
        ([[np.eye(2, dtype=int)], [[[1, 2], (3, 4)]]], ints(1, 0, 0, 1, 1, 2, 3, 4)),
        ([np.empty((0, 2), "float32"), []], floats()),
        (torch.tensor([1.5, -2.5], dtype=torch.bfloat16), floats(1.5, -2.5)),
        (torch.tensor([[1, 2], [3, 4]]).T, ints(1, 3, 2, 4)),
        (torch.ones(1).expand(3), floats(1, 1, 1)),
        (torch.tensor([1 + 2j]).conj().imag, floats(-2)),
        (tio.BytesArray.from_list([b"a", b"", b"bc"]), texts(b"a", b"", b"bc")),
        (tio.BytesArray.from_list([]), texts()),
        (np.array([b"a", "b"], object), texts(b"a", b"b")),
        (np.array(["a", "bc"], np.dtypes.StringDType()), texts(b"a", b"bc"))
        if hasattr(np.dtypes, "StringDType")
        else (None, NO_KIND),
        (range(3), ints(0, 1, 2)),
        (collections.UserList([1, 2]), ints(1, 2)),
        (np.ma.array([1, 2], mask=[False, False]), ints(1, 2)),
        (np.array([0, 1, 2, 255], np.uint8).view(bool), ints(0, 1, 1, 1)),
        (math.inf, floats(math.inf)),
        (np.longdouble("inf"), floats(math.inf)),
        (1e-60, floats(0)),
        (float(2**128 - 2**103 - 2**75), floats(3.4028234663852886e38)),
        (None, NO_KIND),
    ],
)
def test_values(value: Any, stored: Stored) -> None:
    assert tio.encode_example({"x": value}) == example_bytes(x=stored)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bfloat16])
def test_values_on_a_device(dtype: torch.dtype) -> None:
    for values in (torch.arange(6, dtype=dtype).reshape(2, 3).T, torch.tensor(7, dtype=dtype)):
        encoded = tio.encode_example({"x": values.cuda()})
        assert encoded == tio.encode_example({"x": values.tolist()})


class _Colour(enum.IntEnum):
    RED = 3


class _Pair(NamedTuple):
    first: int
    second: int


class _Shouting(str):
    __slots__ = ()

    def __hash__(self) -> int:
        raise AssertionError("names are read as plain str")

    def encode(self, *_: Any) -> bytes:
        raise AssertionError("values are read as plain str")


class _Scalar(np.float32):
    pass


def test_subclasses_of_other_types() -> None:
    assert tio.encode_example({"x": _Scalar(7)}) == example_bytes(x=floats(7))
    assert tio.encode_example({"x": [_Scalar(7), 1]}) == example_bytes(x=floats(7, 1))


def test_subclasses_of_python_types() -> None:
    assert tio.encode_example({"x": _Colour.RED}) == example_bytes(x=ints(3))
    assert tio.encode_example({"x": _Pair(1, 2)}) == example_bytes(x=ints(1, 2))
    assert tio.encode_example({"x": _Shouting("é")}) == example_bytes(x=texts("é".encode()))
    assert tio.encode_example({np.str_("x"): 1}, {"x": "float32"}) == example_bytes(x=floats(1))


def test_any_mapping() -> None:
    for mapping in (
        types.MappingProxyType({"x": 1}),
        collections.OrderedDict(x=1),
        collections.ChainMap({"x": 1}),
    ):
        assert tio.encode_example(mapping) == example_bytes(x=ints(1))
        assert tio.encode_examples(iter([mapping])) == [example_bytes(x=ints(1))]


def test_nans_are_kept() -> None:
    # The bits of float32 values are kept.
    bits = np.array([0x7F800001, 0xFFC12345, 0x7FC00000], "<u4").view("<f4")
    assert bits.tobytes() in tio.encode_example({"x": bits})
    for value in (
        math.nan,
        -math.nan,
        np.float64("nan"),
        struct.unpack("<d", b"\1" * 6 + b"\xf0\x7f")[0],
    ):
        [row] = tio.parse_examples(
            [tio.encode_example({"x": value})], {"x": tio.VarLenFeature("float")}
        )["x"].tolist()
        assert [math.isnan(read) for read in row] == [True]


def test_names_may_be_bytes() -> None:
    features: Any = {"é".encode(): 1}
    assert tio.encode_example(features) == example_bytes(é=ints(1))
    assert tio.encode_example(features, {"é": "float32"}) == example_bytes(é=floats(1))
    kinds: Any = {b"x": "float32"}
    assert tio.encode_example({"x": 1}, kinds) == example_bytes(x=floats(1))


def test_other_threads_may_modify_arrays_during_encoding() -> None:
    # The measured size is written, even if the array changes.
    shared = np.zeros(20_000, np.int64)
    stop = threading.Event()

    def scribble() -> None:
        while not stop.is_set():
            shared[:] = -1
            shared[:] = 0

    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        for _ in range(50):
            message = Example.FromString(tio.encode_example({"x": shared}))
            assert len(message.features.feature["x"].int64_list.value) == 20_000
    finally:
        stop.set()
        thread.join()


# ---- kinds ----


@pytest.mark.parametrize(
    ("dtype", "value", "stored"),
    [
        ("int64", [], ints()),
        ("int32", [], ints()),
        ("bool", True, ints(1)),
        ("uint8", [1, 2], ints(1, 2)),
        ("float32", [], floats()),
        ("float64", 1, floats(1)),
        ("half", [[1, 2], [3, 4.5]], floats(1, 2, 3, 4.5)),
        ("bfloat16", np.arange(2), floats(0, 1)),
        (float, np.uint8(7), floats(7)),
        (int, [], ints()),
        (str, [], texts()),
        (bytes, "a", texts(b"a")),
        ("string", [[], ()], texts()),
        (torch.int32, [], ints()),
        (torch.float16, torch.arange(2), floats(0, 1)),
        (np.float64, [], floats()),
        (np.dtype("S7"), [], texts()),
        ("int64", np.array([]), ints()),
        ("string", torch.empty(0, 3), texts()),
        ("float32", np.empty(0, "U1"), floats()),
        ("int64", None, NO_KIND),
    ],
)
def test_named_kinds(dtype: Any, value: Any, stored: Stored) -> None:
    assert tio.encode_example({"x": value}, {"x": dtype, "y": "string"}) == example_bytes(x=stored)


def test_schema_determines_kinds() -> None:
    schema = tio.Schema(
        {
            "image": tio.ImageFeature(),
            "floats": tio.FixedLenFeature([2], "float64"),
            "ints": tio.VarLenFeature("uint8"),
            "raw": tio.RawFeature("int32", shape_key="shape"),
            "texts": tio.VarLenFeature("string"),
        }
    )
    names = ["image", "floats", "ints", "raw", "shape", "texts"]
    kinds = [texts(), floats(), ints(), texts(), ints(), texts()]
    expected = example_bytes(**dict(zip(names, kinds, strict=True)))
    for given_kinds in (schema, dict(schema)):
        assert tio.encode_example({name: [] for name in names}, given_kinds) == expected
    assert tio.encode_example({"other": 1}, schema) == example_bytes(other=ints(1))


def test_kinds_must_be_a_mapping() -> None:
    no_kinds: Any
    for no_kinds in (["x"], "int64", {1: "int64"}):
        with pytest.raises(TypeError, match=r"kinds must be a mapping|names in kinds must be str"):
            tio.encode_example({"x": 1}, no_kinds)
    assert tio.encode_example({"x": 1}, {np.str_("x"): "float32"}) == example_bytes(x=floats(1))


def test_unknown_dtypes() -> None:
    with pytest.raises(tio.SchemaError, match="dtype must be one of"):
        tio.encode_example({}, {"x": "complex64"})
    unhashable: Any = {"x": []}
    with pytest.raises(tio.SchemaError, match="dtype must be one of"):
        tio.encode_example({}, unhashable)
