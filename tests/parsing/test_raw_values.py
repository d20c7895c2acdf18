"""Raw arrays: how their shapes are known, and their bytes: cut, compressed, or quantized."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.examples import example_of
from torchrec_io.errors import DecodeError, SchemaError

DTYPES = ["uint8", "int16", "float32", "float64", "bool", "complex64"]
arrays = st.tuples(
    st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=3), st.integers(0, 99)
)


def array_of(dtype: str, shape: list[int], seed: int) -> np.ndarray[Any, Any]:
    """An array of any numbers that are equal to themselves."""
    numbers = np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 100, shape)
    return np.asarray(numbers).astype(dtype)


def record_of(array: np.ndarray[Any, Any], *, packed: bool) -> bytes:
    data = array.tobytes()
    return example_of(x=[zlib.compress(data) if packed else data], shape=list(array.shape))


def read(records: list[bytes], *arguments: Any, **options: Any) -> Any:
    return tio.parse_examples(records, {"x": tio.RawFeature(*arguments, **options)})["x"]


def refusal(record: bytes, *arguments: Any, **options: Any) -> str:
    """Why a record is refused."""
    with pytest.raises(DecodeError) as caught:
        read([record], *arguments, **options)
    assert (caught.value.record, caught.value.feature) == (0, "x")
    return caught.value.reason


# ---- how the shape is known ----


@given(arrays, st.integers(1, 3), st.booleans(), st.booleans())
def test_all_ways_to_know_the_shape_give_the_array(
    which: tuple[str, list[int], int], count: int, packed: bool, big: bool
) -> None:
    dtype, shape, seed = which
    stored = [array_of(dtype, shape, seed + i) for i in range(count)]
    kind = np.dtype(dtype).newbyteorder(">" if big else "<")
    records = [record_of(array.astype(kind), packed=packed) for array in stored]
    options = {"compression": "zlib" if packed else None, "little_endian": not big}
    column = read(records, dtype, shape, **options)
    assert column.dtype == getattr(torch, dtype)
    assert column.tolist() == [array.tolist() for array in stored]
    ways: list[dict[str, Any]] = [{"shape_key": "shape"}]
    if shape:
        ways.append({"shape_key": "shape", "shape": [None] * len(shape)})
        ways += [
            {"shape": [*shape[:axis], None, *shape[axis + 1 :]]}
            for axis in range(len(shape))
            if 0 not in shape[:axis] + shape[axis + 1 :]
        ]
    for way in ways:
        listed = read(records, dtype, **way, **options)
        assert [tuple(one.shape) for one in listed] == [tuple(shape)] * count
        assert [one.tolist() for one in listed] == [array.tolist() for array in stored]
        assert {one.dtype for one in listed} == {column.dtype}


@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=3))
def test_each_size_may_stand_in_a_feature_of_its_own(shapes: list[list[int]]) -> None:
    arrays = [array_of("int16", shape, number) for number, shape in enumerate(shapes)]
    keys = ["height", "width", "depth"]
    records = [
        example_of(
            x=[array.tobytes()], **dict(zip(keys, ([size] for size in array.shape), strict=True))
        )
        for array in arrays
    ]
    ways: list[dict[str, Any]] = [{}, {"shape": [None] * 3}]
    depths = {shape[2] for shape in shapes}
    if len(depths) == 1:
        ways.append({"shape": (None, None, *depths)})  # which is compared
    for way in ways:
        listed = read(records, "int16", shape_key=keys, **way)
        assert [tuple(one.shape) for one in listed] == [array.shape for array in arrays]
        assert [one.tolist() for one in listed] == [array.tolist() for array in arrays]
    if len(depths) == 1:  # and need not be stored
        listed = read(records, "int16", shape=(None, None, *depths), shape_key=keys[:2])
        assert [one.tolist() for one in listed] == [array.tolist() for array in arrays]


@pytest.mark.parametrize(
    ("stored", "shape", "reason"),
    [
        ({}, [None, None, 2], "its shape is [1, 2, 3], the schema wants [None, None, 2]"),
        ({"w": [3]}, None, "it has 6 bytes, its shape [1, 3, 3] of uint8 needs 9"),
        ({"w": [-2]}, None, "its shape [1, -2, 3] has a negative size"),
        ({"w": [2, 2]}, None, "'w' holds 2 values, which cannot be the shapes of 1 array"),
        ({"w": []}, None, "'w' holds 0 values, which cannot be the shapes of 1 array"),
    ],
)
def test_sizes_of_several_features_that_do_not_fit(stored: Any, shape: Any, reason: str) -> None:
    record = example_of(**{"x": [bytes(6)], "h": [1], "w": [2], "d": [3], **stored})
    assert refusal(record, "uint8", shape, shape_key=["h", "w", "d"]) == reason


def test_the_bytes_may_stand_under_another_name() -> None:
    record = example_of(bytes=[b"\1\2"], shape=[2], packed=[zlib.compress(b"\3\4")])
    schema = {
        "a": tio.RawFeature("uint8", [2], key="bytes"),
        "b": tio.RawFeature("uint8", [None], key="bytes"),
        "c": tio.RawFeature("uint8", shape_key="shape", key="bytes"),
        "d": tio.RawFeature("uint8", [2], key="packed", compression="zlib"),
        "e": tio.RawFeature("uint8", fixed_length=1, key="bytes"),
    }
    sample = tio.parse_example(record, schema)
    assert {name: value.tolist() for name, value in sample.items()} == {
        "a": [1, 2],
        "b": [1, 2],
        "c": [1, 2],
        "d": [3, 4],
        "e": [1],
    }
    with pytest.raises(DecodeError, match="in the stored feature 'none'") as caught:
        tio.parse_example(record, {"a": tio.RawFeature("uint8", [2], key="none")})
    assert caught.value.feature == "a"


@pytest.mark.parametrize(
    ("size", "stored", "shape", "reason"),
    [
        (6, [3], [None, 2], "its shape is [3], the schema wants [None, 2]"),
        (6, [1, 3], [None, 2], "its shape is [1, 3], the schema wants [None, 2]"),
        (8, [3], None, "it has 8 bytes, its shape [3] of int32 needs 12"),
        (8, [], None, "it has 8 bytes, its shape [] of int32 needs 4"),
        (8, [0], None, "it has 8 bytes, its shape [0] of int32 needs 0"),
        (8, [-2], None, "its shape [-2] has a negative size"),
        (8, [0, -1], None, "its shape [0, -1] has a negative size"),
        (8, [-1, -2], None, "its shape [-1, -2] has a negative size"),
        (8, [2**62] * 50_000, None, "its shape"),  # in no time
        (8, [2**62, 2], None, "its shape"),
        (8, [2**32, 2**32], None, "its shape"),  # 0 if it wrapped around at 64 bits
        (8, [2**31, 2**31, 2], None, "its shape"),
        # Bytes of no array fill these shapes, but no tensor can have them.
        (0, [0, 2**62], None, "its shape"),
        (0, [2**62, 0, 4], None, "its shape"),
        (0, [0, 2**32, 2**32], None, "its shape"),
        (0, [2**63 - 1, 2**63 - 1, 0], None, "its shape"),
    ],
)
def test_stored_shapes_that_do_not_fit(
    size: int, stored: list[int], shape: Any, reason: str
) -> None:
    record = example_of(x=[bytes(size)], shape=stored)
    assert refusal(record, "int32", shape, shape_key="shape").startswith(reason)


def test_shapes_of_very_many_dimensions() -> None:
    for rank in (8, 64, 65, 1000):
        shape = [*[1] * (rank - 1), 2]
        [array] = read([example_of(x=[b"ab"], shape=shape)], "uint8", None, "shape")
        assert list(array.shape) == shape


def test_arrays_without_a_shape_or_bytes() -> None:
    for record, reason in (
        (example_of(x=[b"ab"]), "it has 2 bytes, its shape [] of uint8 needs 1"),
        (example_of(shape=[2]), "the feature is required"),
        (example_of(x=[b"ab"], shape=[b"2"]), "wants int64, in the stored feature 'shape'"),
    ):
        assert reason in refusal(record, "uint8", shape_key="shape")


@pytest.mark.parametrize("shape", [{"shape": [3]}, {"shape_key": "shape"}])
def test_a_bool_is_zero_or_one(shape: dict[str, Any]) -> None:
    good = example_of(x=[b"\x00\x01\x01"], shape=[3])
    assert read([good], "bool", **shape)[0].tolist() == [False, True, True]
    for byte in (2, 128, 255):
        bad = example_of(x=[bytes([1, 0, byte])], shape=[3])
        assert "neither 0 nor 1" in refusal(bad, "bool", **shape)


def test_a_size_that_cannot_be_found() -> None:
    reason = refusal(example_of(x=[bytes(10)]), "int16", [2, None])
    assert reason == "it has 10 bytes, its shape [2, None] of int16 needs a multiple of 4"


# ---- bytes that are cut or padded ----


def test_a_value_that_ends_within_an_element() -> None:
    # The example of the TensorFlow semantics: 01 23, big-endian int32, 8 bytes.
    for shape, values in ((None, [[0x01230000, 0]]), ([2, 1], [[[0x01230000], [0]]])):
        options: dict[str, Any] = {"little_endian": False, "fixed_length": 8}
        assert read([example_of(x=[b"\x01\x23"])], "int32", shape, **options).tolist() == values


def test_a_fixed_length_still_needs_one_value() -> None:
    for record in (example_of(x=[b"a", b"b"]), example_of(), b""):
        refusal(record, "uint8", fixed_length=2)


def test_a_bool_that_is_cut_off_is_not_checked() -> None:
    cut = read([example_of(x=[b"\1\0\2"])], "bool", fixed_length=2)
    assert cut.tolist() == [[True, False]]
    assert "neither 0 nor 1" in refusal(example_of(x=[b"\1\2"]), "bool", fixed_length=2)


# ---- zlib ----

STREAM = zlib.compress(bytes(range(6)))
WAYS: list[dict[str, Any]] = [{"shape": [6]}, {"shape": [None]}, {"shape_key": "shape"}]


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (STREAM[:-1], "its zlib stream is truncated"),
        (STREAM[:3], "its zlib stream is truncated"),
        (b"", "its zlib stream is truncated"),
        (STREAM + b"!!", "its zlib stream is followed by 2 bytes"),
        (b"no zlib", "its zlib stream is damaged"),
        (STREAM[:-1] + b"\0", "its zlib stream is damaged"),
        (STREAM[:4] + b"\xff" + STREAM[5:], "its zlib stream is damaged"),
    ],
)
def test_damaged_streams_are_refused(stream: bytes, reason: str) -> None:
    record = example_of(x=[stream], shape=[6])
    for way in WAYS:
        assert refusal(record, "uint8", **way, compression="zlib").startswith(reason)


def test_a_stream_must_have_the_size_of_its_shape() -> None:
    record = example_of(x=[STREAM], shape=[5])
    for way in ({"shape": [5]}, {"shape_key": "shape"}):
        reason = refusal(record, "uint8", **way, compression="zlib")
        assert reason == (
            "its zlib stream holds more than 5 bytes, the size of its shape [5] of uint8"
        )
    record = example_of(x=[STREAM], shape=[7])
    for way in ({"shape": [7]}, {"shape_key": "shape"}):
        reason = refusal(record, "uint8", **way, compression="zlib")
        assert reason == "it has 6 bytes, its shape [7] of uint8 needs 7"


def test_nothing_is_inflated_beyond_max_bytes() -> None:
    bomb = zlib.compress(bytes(1 << 24))
    record = example_of(x=[bomb], shape=[1 << 24])
    reason = refusal(record, "uint8", [None], compression="zlib", max_bytes=1000)
    assert reason == "its zlib stream holds more than 1,000 bytes, max_bytes=1000"
    reason = refusal(record, "uint8", shape_key="shape", compression="zlib", max_bytes=1000)
    assert reason == f"its shape [{1 << 24}] has {1 << 24:,} bytes, over max_bytes=1000"
    # What the schema itself says needs no other bound.
    whole = {"compression": "zlib", "max_bytes": 1000}
    assert tuple(read([record], "uint8", [1 << 24], **whole).shape) == (1, 1 << 24)
    assert read([example_of(x=[STREAM])], "uint8", [None], compression="zlib", max_bytes=6)


def test_compressed_bools_and_ranges_are_checked() -> None:
    bad = example_of(x=[zlib.compress(b"\1\2")], shape=[2])
    for way in WAYS:
        shape = {**way, "shape": [2] if way.get("shape") == [6] else way.get("shape")}
        assert "neither 0 nor 1" in refusal(bad, "bool", **shape, compression="zlib")
        reason = refusal(bad, "int8", **shape, compression="zlib", valid_range=(0, 1))
        assert reason == "the value 2 is outside the valid range [0, 1]"


# ---- quantized numbers ----


def dequantized(value: int, high: float, low: float) -> np.float32:
    """YouTube-8M's ``utils.Dequantize`` of one byte, step by step in float32."""
    extent = high - low
    return np.float32(value) * np.float32(extent / 255.0) + np.float32(extent / 512.0 + low)


@pytest.mark.parametrize(
    ("ends", "packed"), [((-2, 2), False), ((0.0, 1.0), True), ((-0.3, 12.7), False)]
)
def test_quantized_numbers_are_those_of_youtube_8m(ends: tuple[float, float], packed: bool) -> None:
    stored = np.arange(512, dtype=np.uint16).astype(np.uint8).reshape(2, 256)
    low, high = ends
    expected = [[dequantized(int(byte), high, low) for byte in row] for row in stored]
    records = [record_of(row, packed=packed) for row in stored]
    options: dict[str, Any] = {"dequantize": ends, "compression": "zlib" if packed else None}
    column = read(records, "uint8", [256], **options)
    assert column.dtype == torch.float32
    assert column.tolist() == expected
    for way in ({"shape": [None]}, {"shape_key": "shape"}):
        listed = read(records, "uint8", **way, **options)
        assert [one.tolist() for one in listed] == expected
        assert {one.dtype for one in listed} == {torch.float32}


def test_the_range_of_quantized_numbers_is_that_of_the_column() -> None:
    feature = {"dequantize": (-2, 2), "valid_range": (-2, 1.9)}
    assert len(read([example_of(x=[b"\0\x80"])], "uint8", [2], **feature)) == 1
    reason = refusal(example_of(x=[b"\0\xff"]), "uint8", [2], **feature)
    assert reason.endswith("is outside the valid range [-2, 1.9]")


# ---- specs ----


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"shape": [None, None]}, "at most one None"),
        ({"shape": [None, 0]}, "no 0 beside a None"),
        ({"shape": [2], "shape_key": "s"}, "both with a None in the shape"),
        ({"shape": [None, -1]}, "non-negative integers"),
        ({"shape": [2], "compression": "gzip"}, "None or 'zlib'"),
        ({"shape": [2], "max_bytes": 9}, "max_bytes needs compression"),
        ({"shape": [2], "compression": "zlib", "max_bytes": 0}, "max_bytes"),
        ({"fixed_length": 2, "compression": "zlib"}, "fixed_length excludes"),
        ({"fixed_length": 2, "dequantize": (0, 1)}, "fixed_length excludes"),
        ({"fixed_length": 2, "shape": [None]}, "must be the size of the shape"),
        ({"shape": [2], "dequantize": (1, 1)}, "low < high"),
        ({"shape": [2], "dequantize": (0, float("nan"))}, "low < high"),
        ({"shape": [2], "dequantize": (0, float("inf"))}, "low < high"),
        ({"shape": [2], "dequantize": 5}, "low < high"),
        ({"shape": [2], "key": ""}, "key must be"),
        ({"dtype": "int32", "fixed_length": 6}, "fixed_length"),
        ({"fixed_length": 0}, "fixed_length"),
        ({"fixed_length": 4.0}, "fixed_length"),
        ({"dtype": "complex128", "fixed_length": 8}, "fixed_length"),
        ({"fixed_length": 8, "shape": [3]}, "fixed_length"),
        ({"fixed_length": 8, "shape_key": "shape"}, "fixed_length"),
        ({}, "shape"),
        ({"shape_key": []}, "a feature for each size"),
        ({"shape_key": ["a"], "shape": [None, None]}, "a feature for each size"),
        ({"shape_key": ["a", ""]}, "shape_key must be the name of a feature"),
        ({"shape_key": ["a", "b"], "shape": [2, 3]}, "both with a None in the shape"),
        ({"dtype": "string", "shape": [2]}, "dtype"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        tio.RawFeature(**{"dtype": "uint8", **arguments})
    with pytest.raises(SchemaError, match="needs the dtype 'uint8'"):
        tio.RawFeature("int8", [2], dequantize=(0, 1))
