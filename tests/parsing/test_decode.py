"""Raw arrays: their shapes and values."""

from __future__ import annotations

from typing import Any

import pytest

import torchrec_io as tio
from tests.support.wire import bytes_feature, entry, example, int_feature
from torchrec_io.errors import DecodeError


def raw_example(data: bytes, *shape: int, key: str = "x") -> bytes:
    return example(entry(key, bytes_feature(data)), entry("shape", int_feature(*shape)))


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((3,), "has 8 bytes, its shape .3. of int32 needs 12"),
        ((), "has 8 bytes, its shape .. of int32 needs 4"),
        ((-2,), "negative size"),
        ((0, -1), "negative size"),
        ((2**62,) * 50_000, "its shape"),  # in no time
        ((-1, -2), "negative size"),
        ((2, -1), "negative size"),
        ((0,), "needs 0"),
        ((2**62, 2), "its shape"),
        ((2**32, 2**32), "its shape"),  # 0 if it wrapped around at 64 bits
        ((2**31, 2**31, 2), "its shape"),
        ((2**63 - 1, 2), "its shape"),
    ],
)
def test_a_raw_array_that_does_not_fill_its_shape_is_refused(
    shape: tuple[int, ...], reason: str
) -> None:
    records = [raw_example(bytes(8), 2), raw_example(bytes(8), *shape)]
    with pytest.raises(DecodeError, match=reason) as caught:
        tio.parse_examples(records, {"x": tio.RawFeature("int32", shape_key="shape")})
    assert (caught.value.record, caught.value.feature) == (1, "x")


@pytest.mark.parametrize(
    "shape",
    [(0, 2**62), (2**62, 0, 4), (0, 2**32, 2**32), (2**63 - 1, 2**63 - 1, 0), (0, 2**63 - 1)],
)
def test_an_empty_array_of_an_impossible_shape_is_refused(shape: tuple[int, ...]) -> None:
    # Its 0 bytes fill the shape, but no tensor can have it.
    with pytest.raises(DecodeError, match="its shape") as caught:
        tio.parse_examples(
            [raw_example(b"", *shape)], {"x": tio.RawFeature("int32", shape_key="shape")}
        )
    assert caught.value.feature == "x"


def test_shapes_of_very_many_dimensions() -> None:
    for rank in (8, 64, 65, 1000):
        record = raw_example(b"ab", *[1] * (rank - 1), 2)
        batch = tio.parse_examples([record], {"x": tio.RawFeature("uint8", None, "shape")})
        assert batch["x"][0].shape == (*[1] * (rank - 1), 2)


def test_a_raw_array_without_its_shape_or_data_is_refused() -> None:
    feature = {"x": tio.RawFeature("uint8", shape_key="shape")}
    no_shape = example(entry("x", bytes_feature(b"ab")))
    with pytest.raises(DecodeError, match=r"its shape .. of uint8 needs 1"):
        tio.parse_examples([no_shape], feature)
    no_data = example(entry("shape", int_feature(2)))
    with pytest.raises(DecodeError, match="required"):
        tio.parse_examples([no_data], feature)
    float_shape = example(entry("x", bytes_feature(b"ab")), entry("shape", bytes_feature(b"2")))
    with pytest.raises(DecodeError, match="wants int64, in the stored feature 'shape'") as caught:
        tio.parse_examples([float_shape], feature)
    assert caught.value.feature == "x"


@pytest.mark.parametrize("shape", [{"shape": [3]}, {"shape_key": "shape"}])
def test_a_bool_is_zero_or_one(shape: dict[str, Any]) -> None:
    feature = tio.RawFeature("bool", **shape)
    good = raw_example(b"\x00\x01\x01", 3)
    assert tio.parse_examples([good], {"x": feature})["x"][0].tolist() == [False, True, True]
    for byte in (2, 128, 255):
        bad = raw_example(bytes([1, 0, byte]), 3)
        with pytest.raises(DecodeError, match="neither 0 nor 1") as caught:
            tio.parse_examples([good, good, bad], {"x": feature})
        assert (caught.value.record, caught.value.feature) == (2, "x")
