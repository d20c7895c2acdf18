"""Valid ranges of specs, and records with values outside of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.examples import example_of, sequence_example_of
from tests.support.plain import plain
from torchrec_io._parsing.parser import ExampleParser
from torchrec_io._records.record_block import RecordList
from torchrec_io._tensors.parse import parse_block

FLOATS = ["float32", "float64", "float16", "bfloat16"]
INTEGERS = ["int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]

# All of them any float dtype holds, so that the model need not round.
_floats = st.sampled_from([math.nan, math.inf, -math.inf, -2.0, -0.5, 0.0, 0.25, 1.0, 1.5, 40.0])
_float_bounds = _floats.filter(lambda number: not math.isnan(number)) | st.sampled_from([0, 1, -2])


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, Any, st.SearchStrategy[Any]]:
    """A dtype, a range, and a strategy of its values."""
    dtype = draw(st.sampled_from([*FLOATS, *INTEGERS]))
    if dtype in FLOATS:
        bounds, numbers = _float_bounds, _floats
    elif dtype == "bool":
        bounds = numbers = st.integers(0, 1)
    else:
        least = 0 if dtype.startswith("u") else -5
        bounds, numbers = st.integers(least, 9), st.integers(least, 9)
    low, high = sorted([draw(bounds), draw(bounds)])
    valid = draw(st.sampled_from([(low, high), (None, high), (low, None), (None, None)]))
    return dtype, valid, numbers


def is_valid(number: float, valid: Any) -> bool:
    low, high = valid
    return (
        not math.isnan(number)
        and (low is None or number >= low)
        and (high is None or number <= high)
    )


def check(
    make: Callable[..., tio.Schema], valid: Any, records: Sequence[bytes], bad: Sequence[bool]
) -> None:
    """Records that are bad are told and left out; the others are as by the plain schema."""
    schema, without_range = make(valid_range=valid), make()
    batch, failures = parse_block(ExampleParser.of(schema), RecordList.of(records))
    assert [failure.position for failure in failures] == [
        n for n, is_bad in enumerate(bad) if is_bad
    ]
    for failure in failures:
        assert failure.feature == "x"
        assert failure.reason.startswith("the value ")
    good = [record for record, is_bad in zip(records, bad, strict=True) if not is_bad]
    expected, none = parse_block(ExampleParser.of(without_range), RecordList.of(good))
    assert none == []
    assert repr(plain(batch["x"])) == repr(plain(expected["x"]))


def any_bad(numbers: Sequence[float], valid: Any) -> bool:
    return not all(is_valid(number, valid) for number in numbers)


def flat(rows: Sequence[Sequence[Any]]) -> list[Any]:
    return [item for row in rows for item in row]


def rows_of(numbers: st.SearchStrategy[Any], **sizes: Any) -> st.SearchStrategy[list[list[Any]]]:
    return st.lists(st.lists(numbers, **sizes), max_size=6)


PAIRS = [tio.RaggedFeature.RowLengths("l"), tio.RaggedFeature.UniformRowLength(2)]
IN_EXAMPLES: dict[str, Any] = {
    "fixed": lambda dtype, **options: tio.FixedLenFeature([2, 1], dtype, **options),
    "varying": tio.VarLenFeature,
    "ragged": tio.RaggedFeature,
    "rows of pairs": lambda dtype, **options: tio.RaggedFeature(dtype, "x", PAIRS, **options),
    # It is padded with what no range has.
    "padded": lambda dtype, **options: tio.FixedLenSequenceFeature(
        [],
        dtype,
        allow_missing=True,
        default_value=math.nan if dtype in FLOATS else 0,
        **options,
    ),
}


@given(data=st.data(), case=cases(), kind=st.sampled_from([*IN_EXAMPLES]))
def test_in_examples(data: st.DataObject, case: Any, kind: str) -> None:
    dtype, valid, numbers = case
    sizes = {"min_size": 2, "max_size": 2} if kind == "fixed" else {"max_size": 4}
    rows = data.draw(rows_of(numbers, **sizes))
    if kind == "rows of pairs":
        rows = [row[: len(row) // 2 * 2] for row in rows]
    check(
        lambda **options: tio.Schema({"x": IN_EXAMPLES[kind](dtype, **options)}),
        valid,
        [example_of(x=row, l=[len(row) // 2]) for row in rows],
        [any_bad(row, valid) for row in rows],
    )


@given(data=st.data(), case=cases(), kind=st.sampled_from(["varying", "ragged", "padded"]))
def test_in_feature_lists(data: st.DataObject, case: Any, kind: str) -> None:
    dtype, valid, numbers = case
    made: Any = {
        "varying": tio.VarLenFeature,
        "ragged": tio.RaggedFeature,
        "padded": lambda dtype, **options: tio.FixedLenSequenceFeature([2], dtype, **options),
    }[kind]
    size = {"min_size": 2, "max_size": 2} if kind == "padded" else {"max_size": 2}
    records = data.draw(st.lists(rows_of(numbers, **size), max_size=5))
    check(
        lambda **options: tio.Schema(context={}, sequence={"x": made(dtype, **options)}),
        valid,
        [sequence_example_of({}, {"x": steps}) for steps in records],
        [any_bad(flat(steps), valid) for steps in records],
    )


@given(data=st.data(), case=cases(), sorted_already=st.booleans())
def test_sparse(data: st.DataObject, case: Any, sorted_already: bool) -> None:
    dtype, valid, numbers = case
    entries = st.lists(st.tuples(st.integers(0, 9), numbers), max_size=4)
    rows = data.draw(st.lists(entries, max_size=5))
    check(
        lambda **options: tio.Schema(
            {"x": tio.SparseFeature("i", "v", dtype, 10, sorted_already, **options)}
        ),
        valid,
        [example_of(i=[i for i, _ in row], v=[v for _, v in row]) for row in rows],
        [any_bad([v for _, v in row], valid) for row in rows],
    )


@given(data=st.data(), case=cases(), with_key=st.booleans(), little=st.booleans())
def test_raw(data: st.DataObject, case: Any, with_key: bool, little: bool) -> None:
    dtype, valid, numbers = case
    shape: Any = {"shape_key": "s"} if with_key else {"shape": [2]}
    sizes = {"max_size": 3} if with_key else {"min_size": 2, "max_size": 2}
    rows = data.draw(rows_of(numbers, **sizes))

    def stored(row: list[Any]) -> bytes:
        array = torch.tensor(row, dtype=getattr(torch, dtype)).view(torch.uint8).numpy()
        size = len(array) // max(1, len(row))
        return (array if little else array.reshape(-1, max(1, size))[:, ::-1]).tobytes()

    check(
        lambda **options: tio.Schema(
            {"x": tio.RawFeature(dtype, **shape, little_endian=little, **options)}
        ),
        valid,
        [example_of(x=[stored(row)], s=[len(row)]) for row in rows],
        [any_bad(row, valid) for row in rows],
    )


# ---- bounds ----


@given(dtype=st.sampled_from(FLOATS), bound=st.floats(-6e4, 6e4), number=st.floats(width=16))
@pytest.mark.parametrize("side", [0, 1])
def test_bounds_are_rounded_to_the_dtype(
    dtype: str, bound: float, number: float, side: int
) -> None:
    if dtype == "bfloat16":
        bound_held, held = torch.tensor([bound, number], dtype=torch.bfloat16).tolist()
    else:
        bound_held, held = np.array([bound, number], dtype).tolist()
    valid = (bound, None) if side == 0 else (None, bound)
    expected = held >= bound_held if side == 0 else held <= bound_held
    assert admits(dtype, number, valid) == expected


def admits(dtype: Any, number: float, valid: Any) -> bool:
    try:
        tio.FixedLenFeature([], dtype, number, valid_range=valid)
    except tio.SchemaError as error:
        return not error.reason.startswith("default_value must be in the valid_range")
    return True


@pytest.mark.parametrize(
    ("dtype", "far"),
    [("float32", 1e39), ("float64", 2**1100), ("float16", 70_000), ("bfloat16", 3.4e38)],
)
def test_bounds_beyond_all_finite_numbers(dtype: str, far: float) -> None:
    most = torch.finfo(getattr(torch, dtype)).max
    numbers = [-math.inf, -most, 0.0, most, math.inf]
    for valid, count in {
        (far, None): -1,
        (-far, None): -4,
        (None, far): 4,
        (None, -far): 1,
    }.items():
        expected = numbers[:count] if count > 0 else numbers[count:]
        assert [number for number in numbers if admits(dtype, number, valid)] == expected


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_number_lies_between_itself_and_itself_however_it_is_rounded(dtype: Any) -> None:
    schema = {"x": tio.FixedLenFeature([], dtype, valid_range=(0.1, 0.1))}
    assert len(tio.parse_examples([example_of(x=[0.1])], schema)["x"]) == 1
    with pytest.raises(
        tio.DecodeError, match=r"the value 0\.\d+ is outside the valid range \[0.1, 0.1\]"
    ):
        tio.parse_examples([example_of(x=[0.102])], schema)


@pytest.mark.parametrize(
    ("dtype", "valid", "good", "bad"),
    [
        ("int8", (-1e9, 2.5), [-128, 2], [3, 127]),
        ("int8", (0.5, None), [1, 127], [0, -1]),
        ("uint64", (2**63 + 1, None), [2**64 - 1, 2**63 + 1], [2**63, 0]),
        ("int64", (-(2**63), 2**63 - 2), [-(2**63), 2**63 - 2], [2**63 - 1]),
        ("int64", (-math.inf, math.inf), [-(2**63), 2**63 - 1], []),
        ("bool", (1, None), [1], [0]),
    ],
)
def test_whole_numbers(dtype: Any, valid: Any, good: list[int], bad: list[int]) -> None:
    def parse(number: int) -> Any:
        stored = torch.tensor([number], dtype=getattr(torch, dtype))
        data = stored.view(torch.uint8).numpy().tobytes()
        schema = {"x": tio.RawFeature(dtype, [1], valid_range=valid)}
        return tio.parse_examples([example_of(x=[data])], schema)["x"].item()

    assert [parse(number) for number in good] == good
    for number in bad:
        with pytest.raises(tio.DecodeError, match=f"the value {number} is outside"):
            parse(number)


# ---- the specs ----

SPECS: list[Any] = [
    lambda dtype, valid: tio.FixedLenFeature([], dtype, valid_range=valid),
    lambda dtype, valid: tio.VarLenFeature(dtype, valid_range=valid),
    lambda dtype, valid: tio.FixedLenSequenceFeature([], dtype, valid_range=valid),
    lambda dtype, valid: tio.SparseFeature("i", "v", dtype, 9, valid_range=valid),
    lambda dtype, valid: tio.RaggedFeature(dtype, valid_range=valid),
    lambda dtype, valid: tio.RawFeature(dtype, [1], valid_range=valid),
]


@pytest.mark.parametrize("make", SPECS)
def test_every_spec_checks_its_range(make: Any) -> None:
    with pytest.raises(tio.SchemaError, match="valid_range"):
        make("float32", (2, 1))
    with pytest.raises(tio.SchemaError, match="valid_range must contain a value of uint8"):
        make("uint8", (256, None))
    is_raw = isinstance(make("int8", None), tio.RawFeature)
    with pytest.raises(tio.SchemaError, match="values have an order"):
        make("complex64" if is_raw else "string", (0, 1))


@pytest.mark.parametrize(
    "valid",
    [
        (0.5, 0.25),
        (True, 2),
        (0, np.bool_(True)),
        (math.nan, 1),
        (0, math.nan),
        ("0", 1),
        (0,),
        (0, 1, 2),
        0,
        "01",
        {0, 1},
    ],
)
def test_invalid_ranges(valid: Any) -> None:
    with pytest.raises(tio.SchemaError, match="valid_range"):
        tio.VarLenFeature("float32", valid_range=valid)


@pytest.mark.parametrize(
    ("dtype", "valid"),
    [
        ("uint8", (None, -1)),
        ("int64", (0.2, 0.8)),
        ("int32", (math.inf, None)),
        ("int32", (None, -math.inf)),
        ("float32", (1e39, 1e40)),
    ],
)
def test_a_range_that_the_dtype_has_nothing_in(dtype: Any, valid: Any) -> None:
    with pytest.raises(tio.SchemaError, match=f"valid_range must contain a value of {dtype}"):
        tio.VarLenFeature(dtype, valid_range=valid)


@pytest.mark.parametrize(
    ("dtype", "default"),
    [
        ("float32", [0.5, math.nan]),
        ("float64", [0.5, 1.5]),
        ("float16", [-math.inf, 0]),
        ("bfloat16", [0.5, 1.5]),
    ],
)
def test_a_default_has_to_be_valid(dtype: Any, default: list[float]) -> None:
    with pytest.raises(tio.SchemaError, match=r"must be in the valid_range \[0, 1\], got"):
        tio.FixedLenFeature([2], dtype, default, valid_range=(0, 1))
    spec = tio.FixedLenFeature([2], dtype, [0.5, 1], valid_range=(0, 1))
    assert tio.parse_examples([b""], {"x": spec})["x"].tolist() == [[0.5, 1]]
