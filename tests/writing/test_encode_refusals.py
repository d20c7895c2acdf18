"""Values that cannot be encoded, and values that run code during encoding."""

from __future__ import annotations

import array
import datetime as dt
import decimal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import torchrec_io as tio
from tests.support.encoding import (
    example_bytes,
    ints,
    texts,
)


def nested_lists(depth: int) -> list[Any]:
    value: list[Any] = [1]
    for _ in range(depth - 1):
        value = [value]
    return value


SELF = [1, 2]
SELF.append(SELF)  # type: ignore[arg-type]  # no type contains itself
ONLY_SELF: list[Any] = []
ONLY_SELF.extend([ONLY_SELF, ONLY_SELF, range(2)])


class _Unreadable:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ValueError("not \ud800 today")


UNEVEN = "rows of nested lists would be lost, because they have different lengths"
REFUSED: list[tuple[Any, type[Exception], str]] = [
    (2**63, ValueError, "9223372036854775808 does not fit in int64"),
    (-(2**63) - 1, ValueError, "does not fit in int64"),
    ([1, 2**63], ValueError, "does not fit in int64"),
    (10**6000, ValueError, "a value of type int does not fit in int64"),
    (np.array([0, 2**63], "uint64"), ValueError, "9223372036854775808 does not fit in int64"),
    (1e39, ValueError, r"1e\+39 does not fit in float32"),
    (float(2**128 - 2**103), ValueError, "does not fit in float32"),
    ([1.5, -(2**128)], ValueError, "does not fit in float32"),
    ([1.5, 10**400], ValueError, r"1000\d+\.\.\. does not fit in float32"),
    (np.array([1e39]), ValueError, "does not fit in float32"),
    (np.array([1e39], ">f8"), ValueError, "does not fit in float32"),
    (torch.tensor([1e39], dtype=torch.float64), ValueError, "does not fit in float32"),
    (np.longdouble("1e4000"), ValueError, "does not fit in float32"),
    ("a\ud800", ValueError, r"'a\\ud800' cannot be encoded as UTF-8"),
    ([], ValueError, "an empty list has no kind: specify one in kinds"),
    ([[], ()], ValueError, "an empty list has no kind: specify one in kinds"),
    (np.array([], object), ValueError, "an empty list has no kind"),
    ([1, "a"], TypeError, "both numbers and bytes"),
    ([b"a", 1.5], TypeError, "both numbers and bytes"),
    ([np.arange(2), "a"], TypeError, "both numbers and bytes"),
    ([["a"], [bytearray(b"b"), 1]], TypeError, "both numbers and bytes"),
    (1j, TypeError, "a complex cannot be stored"),
    ([1j], TypeError, "a complex cannot be stored"),
    (np.array([1j]), TypeError, "an array of complex128 cannot be stored"),
    (torch.tensor([1j]), TypeError, "an array of complex64 cannot be stored"),
    ({}, TypeError, "a dict cannot be stored"),
    ({1, 2}, TypeError, "a set cannot be stored"),
    (dt.datetime(2020, 1, 1, tzinfo=dt.UTC), TypeError, "a datetime cannot"),
    (np.timedelta64(1, "s"), TypeError, "an array of timedelta64"),
    (np.zeros(1, [("a", "i4")]), TypeError, "an array of .* cannot be stored"),
    (decimal.Decimal(1), TypeError, "a Decimal cannot be stored"),
    (iter([1]), TypeError, "a list_iterator cannot be stored"),
    (object(), TypeError, "an object cannot be stored; use int, float, str, bytes"),
    ([1, None], TypeError, "a NoneType cannot be stored"),
    (np.array([1, None], object), TypeError, "a NoneType cannot be stored"),
    (np.ma.array([1, 2], mask=[False, True]), ValueError, "masked"),
    (torch.eye(2).to_sparse(), TypeError, "values of this Tensor cannot be read"),
    (torch.empty(2, device="meta"), TypeError, "values of this Tensor cannot be read"),
    (nested_lists(65), ValueError, "nested more than 64 deep"),
    ([range(1), nested_lists(64)], ValueError, "nested more than 64 deep"),
    (SELF, ValueError, "nested more than 64 deep"),
    (ONLY_SELF, ValueError, "nested more than 64 deep"),
    ([[1, 2], [3]], ValueError, UNEVEN),
    ([[], [1.5]], ValueError, UNEVEN),
    ([1, [2]], ValueError, UNEVEN),
    ([[1], [[2]]], ValueError, UNEVEN),
    ([["a"], ["b", "c"]], ValueError, UNEVEN),
    ([np.arange(2), [3.5]], ValueError, UNEVEN),
    ([np.arange(2), [[1], [2]]], ValueError, UNEVEN),
    ([1, np.arange(1)], ValueError, UNEVEN),
    ([np.empty(0), 1], ValueError, UNEVEN),
    ([range(2), torch.arange(3)], ValueError, UNEVEN),
    (np.array([[1], [2, 3]], object), ValueError, UNEVEN),
    (tio.Ragged(torch.arange(3), torch.tensor([0, 1, 3])), TypeError, "rows .* would be lost"),
    (_Unreadable(), ValueError, "the value cannot be read"),
    ([b"x" * (1 << 20)] * 2048, ValueError, "2 GiB"),
]


@pytest.mark.parametrize(
    ("value", "error", "reason"), REFUSED, ids=[reason for _, _, reason in REFUSED]
)
def test_invalid_values(value: Any, error: type[Exception], reason: str) -> None:
    ways: list[Callable[[], object]] = [
        lambda: tio.encode_example({"é": value}),
        lambda: tio.encode_sequence_example({"é": value}, {}),
    ]
    if not isinstance(value, list) or value[-1:] != [None]:
        ways.append(lambda: tio.encode_sequence_example({}, {"é": [value]}))
    for way in ways:
        with pytest.raises(error, match=reason) as caught:
            way()
        assert type(caught.value) is error
        assert str(caught.value).endswith(r"(feature '\xe9')") or "2 GiB" in reason
    good = {"é": 1}
    with pytest.raises(error, match=reason) as caught:
        tio.encode_examples([good, good, {"é": value}, good])
    assert str(caught.value).endswith((r"(example 2, feature '\xe9')", "(example 2)"))
    with pytest.raises(error, match=reason) as caught:
        tio.encode_sequence_examples([(good, None), ({"é": value}, None)])
    assert str(caught.value).endswith((r"(example 1, feature '\xe9')", "(example 1)"))


def test_maximum_depth() -> None:
    assert tio.encode_example({"x": nested_lists(64)}) == example_bytes(x=ints(1))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int64", 1.0),
        ("int64", [1, 1.5]),
        ("int64", torch.ones(1)),
        ("int64", "1"),
        ("float32", "1"),
        ("float32", np.array(["1"])),
        ("string", 1),
        ("string", np.arange(2)),
        ("string", [np.float32(1)]),
    ],
)
def test_values_of_a_wrong_kind(dtype: str, value: Any) -> None:
    stored = "bytes" if dtype == "string" else dtype
    with pytest.raises(TypeError, match=f"cannot be stored as {stored} \\(feature 'x'\\)"):
        tio.encode_example({"x": value}, {"x": dtype})


def test_numbers_out_of_range_of_a_named_kind() -> None:
    with pytest.raises(ValueError, match="does not fit in int64"):
        tio.encode_example({"x": 2**63}, {"x": "uint64"})
    with pytest.raises(ValueError, match="does not fit in float32"):
        tio.encode_example({"x": 2**128}, {"x": "float64"})


@pytest.mark.parametrize("value", [1, "ab", b"ab", None])
def test_values_without_steps(value: Any) -> None:
    with pytest.raises(TypeError, match=r"a sequence feature must be .* steps.*\(feature 'x'\)"):
        tio.encode_sequence_example(None, {"x": value})


@pytest.mark.parametrize(
    ("value", "error", "reason"),
    [
        (np.array(1), TypeError, "must be a list or array of steps"),
        (torch.tensor(1), TypeError, "must be a list or array of steps"),
        ({}, TypeError, "must be a list or array of steps, got dict"),
        ([1, "a"], TypeError, "both numbers and bytes"),
        ([[1], ["a"]], TypeError, "both numbers and bytes"),
        ([[], []], ValueError, "an empty list has no kind"),
        ([[], None], ValueError, "an empty list has no kind"),
        ([[1, None]], TypeError, "a NoneType cannot be stored"),
        ([1, 2**63], ValueError, "does not fit in int64"),
        ([[{}]], TypeError, "a dict cannot be stored"),
        ([nested_lists(64)], ValueError, "nested more than 64 deep"),
    ],
)
def test_invalid_steps(value: Any, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason) as caught:
        tio.encode_sequence_example(None, {"x": value})
    assert str(caught.value).endswith("(feature 'x')")


@pytest.mark.parametrize(
    ("features", "error", "reason"),
    [
        ({1: 1}, TypeError, r"a feature name must be a str, got int \(feature 1\)"),
        ({None: 1}, TypeError, r"a feature name must be a str, got NoneType"),
        (
            {"\ud800": 1},
            ValueError,
            r"the feature name cannot be encoded as UTF-8 \(feature '\\ud800'\)",
        ),
        ({b"\xff": 1}, ValueError, r"the feature name is not UTF-8 \(feature b'\\xff'\)"),
        (
            {"é": 1, "é".encode(): 2},
            ValueError,
            r"the feature name occurs twice \(feature '\\xe9'\)",
        ),
    ],
)
def test_invalid_names(features: Any, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        tio.encode_example(features)
    with pytest.raises(error, match=reason):
        tio.encode_sequence_example(None, {name: [1] for name in features})


def test_features_must_be_a_mapping() -> None:
    no_mapping: Any = [("x", 1)]
    with pytest.raises(TypeError, match="features must be a mapping of names to values, got list"):
        tio.encode_example(no_mapping)
    nothing: Any = None
    with pytest.raises(TypeError, match="got NoneType"):
        tio.encode_example(nothing)
    with pytest.raises(TypeError, match=r"features must be a mapping .* got list \(example 1\)"):
        tio.encode_examples([{}, no_mapping])
    with pytest.raises(TypeError, match=r"context must be a mapping .* got list \(example 0\)"):
        tio.encode_sequence_examples([(no_mapping, None)])
    with pytest.raises(TypeError, match="sequence must be a mapping of names"):
        tio.encode_sequence_example({}, no_mapping)


# ---- values that run code ----


class _Meddler:
    """Object that runs code during its conversion to an array."""

    def __init__(self, meddle: Callable[[], object]) -> None:
        self._meddle = meddle

    def __array__(self, *_: Any, **__: Any) -> np.ndarray[Any, Any]:
        self._meddle()
        return np.array([7])


def test_dicts_and_lists_may_change_during_encoding() -> None:
    inner: list[Any] = [f"value {i}" * 100 for i in range(50)]
    mixed: list[Any] = [1]
    features: dict[str, Any] = {"a" * 100: inner}

    def meddle() -> None:
        inner.clear()
        mixed.extend([2] * 100)
        features.clear()
        features.update({f"new {i}": i for i in range(100)})

    features["m"] = _Meddler(meddle)
    features["n"] = [[*mixed], _Meddler(meddle)]
    features["z" * 100] = ["last" * 100]
    expected = example_bytes(
        **{
            "a" * 100: texts(*[value.encode() for value in inner]),
            "m": ints(7),
            "n": ints(1, 7),
            "z" * 100: texts(b"last" * 100),
        }
    )
    assert tio.encode_example(features) == expected
    assert not inner


def test_value_may_encode_another_example() -> None:
    inner: list[bytes] = []
    meddler = _Meddler(lambda: inner.append(tio.encode_example({"y": b"inner"})))
    assert tio.encode_example({"x": meddler}) == example_bytes(x=ints(7))
    assert inner == [example_bytes(y=texts(b"inner"))]


def test_errors_of_values_are_passed_on() -> None:
    def fail() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tio.encode_example({"x": _Meddler(fail)})


def test_no_references_are_kept() -> None:
    text, data = "é" * 1000, b"x" * 1000
    value: list[Any] = [text, text, data, bytearray(b"y")]
    before = [sys.getrefcount(kept) for kept in (text, data, value)]
    for _ in range(10):
        tio.encode_examples([{"x": value, "y": data}, {"z": value}])
        with pytest.raises(TypeError):
            tio.encode_example({"x": [*value, object()], "y": [text, 1]})
    assert [sys.getrefcount(kept) for kept in (text, data, value)] == before


def test_other_sequences_are_read_item_by_item() -> None:
    assert tio.encode_example({"x": array.array("i", [1, 2])}) == example_bytes(x=ints(1, 2))


def empty_iterator() -> Iterator[Any]:
    yield from ()


def test_no_examples() -> None:
    assert tio.encode_examples(empty_iterator()) == []
    assert tio.encode_sequence_examples(empty_iterator()) == []
