"""Columns of Examples: types, casts, errors and prediction."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.forms import batch_to_json
from tests.support.messages import Example
from tests.support.wire import bytes_feature, entry, example, float_feature, int_feature
from torchrec_io.errors import DecodeError

# ---- types and shapes ----

RECORD = example(
    entry("i", int_feature(1, 2)),
    entry("f", float_feature(1.5)),
    entry("s", bytes_feature(b"x")),
    entry("ss", bytes_feature(b"a", b"", b"bc", b"d")),
)


def test_bytes_like_records_are_taken() -> None:
    for record in (bytearray(RECORD), memoryview(RECORD)):
        ints = tio.parse_examples([record], {"i": tio.VarLenFeature("int64")})["i"]
        assert ints.tolist() == [[1, 2]]


# ---- casts ----

INTEGER_ENDS = {
    "int64": (-(2**63), 2**63 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int8": (-128, 127),
    "uint64": (0, 2**63 - 1),  # what is stored has no more
    "uint32": (0, 2**32 - 1),
    "uint16": (0, 2**16 - 1),
    "uint8": (0, 255),
    "bool": (0, 1),
}


def both_ways(dtype: Any, *values: float) -> list[torch.Tensor]:
    """Values through a FixedLenFeature and through a VarLenFeature of a dtype."""
    is_int = dtype in INTEGER_ENDS
    feature = int_feature(*map(int, values)) if is_int else float_feature(*values)
    record = example(entry("x", feature))
    fixed = tio.parse_examples([record], {"x": tio.FixedLenFeature([len(values)], dtype)})
    ragged = tio.parse_examples([record], {"x": tio.VarLenFeature(dtype)})
    return [fixed["x"][0], ragged["x"].values]


@pytest.mark.parametrize("dtype", INTEGER_ENDS)
def test_integers_up_to_the_ends_of_their_dtype(dtype: str) -> None:
    low, high = INTEGER_ENDS[dtype]
    values = [low, high, 1, 0, high // 2]
    for column in both_ways(dtype, *values):
        assert column.dtype == getattr(torch, dtype)
        assert [int(value) for value in column.tolist()] == values


BEYOND = [(dtype, ends[0] - 1) for dtype, ends in INTEGER_ENDS.items() if dtype != "int64"]
BEYOND += [(dtype, ends[1] + 1) for dtype, ends in INTEGER_ENDS.items() if ends[1] < 2**63 - 1]


@pytest.mark.parametrize(("dtype", "beyond"), BEYOND)
def test_integers_past_the_ends_are_refused(dtype: Any, beyond: int) -> None:
    for before in (0, 1, 130):
        good = example(entry("x", int_feature(*[1] * (before + 1))))
        bad = example(entry("x", int_feature(*[1] * before, beyond)))
        for feature in (tio.FixedLenFeature([before + 1], dtype), tio.VarLenFeature(dtype)):
            with pytest.raises(DecodeError, match="does not fit") as caught:
                tio.parse_examples([good, bad, good], {"x": feature})
            assert (caught.value.record, caught.value.feature) == (1, "x")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@given(st.lists(st.integers(0, 2**32 - 1), max_size=20))
def test_floats_are_cast_as_torch_casts_them(dtype: Any, bits: list[int]) -> None:
    stored = torch.tensor(bits, dtype=torch.uint32).view(torch.float32)
    expected = stored.to(getattr(torch, dtype))
    fits = expected.isinf() == stored.isinf()
    record = bits_example(stored[fits])
    for feature in (tio.FixedLenFeature([int(fits.sum())], dtype), tio.VarLenFeature(dtype)):
        column = tio.parse_examples([record], {"x": feature})["x"]
        values: Any = column.values if isinstance(column, tio.Ragged) else column[0]
        assert_same_floats(values, expected[fits])
    scalar = {"x": tio.FixedLenFeature([], dtype)}
    for position in torch.nonzero(~fits).flatten().tolist():
        with pytest.raises(DecodeError, match="does not fit"):
            tio.parse_examples([bits_example(stored[position : position + 1])], scalar)


def bits_example(stored: torch.Tensor) -> bytes:
    """An Example whose feature "x" holds floats bit by bit: Python's floats would lose NaNs."""
    raw = stored.numpy().tobytes()
    return example(entry("x", b"\x12" + sized(b"\x0a" + sized(raw))))


def sized(data: bytes) -> bytes:
    return int_feature(len(data))[4:] + data


def assert_same_floats(values: torch.Tensor, expected: torch.Tensor) -> None:
    assert values.dtype == expected.dtype
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[values.itemsize]
    nan = expected.isnan()
    assert torch.equal(values.isnan(), nan)
    if values.dtype == torch.float32:
        nan = torch.zeros_like(nan)  # not a cast: every bit is kept
    assert torch.equal(values[~nan].view(whole), expected[~nan].contiguous().view(whole))


@pytest.mark.parametrize("dtype", [*INTEGER_ENDS, "float32", "float64", "float16", "bfloat16"])
def test_defaults_of_every_dtype(dtype: Any) -> None:
    default = [1, 0, 1] if dtype == "bool" else [1, 2, 100]
    batch = tio.parse_examples([b""] * 2, {"x": tio.FixedLenFeature([3], dtype, default)})
    assert batch["x"].dtype == getattr(torch, dtype)
    assert batch["x"].tolist() == [default] * 2


# ---- errors ----


@pytest.mark.parametrize(
    ("feature", "name", "reason"),
    [
        (tio.FixedLenFeature([], "int64"), "none", "required but the record does not have it"),
        (tio.FixedLenFeature([3], "int64"), "i", "the record holds 2 int64 values, .* wants 3"),
        (tio.FixedLenFeature([1], "int32"), "i", "the record holds 2 int64 values, .* wants 1"),
        (tio.FixedLenFeature([2], "float32"), "f", "the record holds 1 float value, .* wants 2"),
        (tio.FixedLenFeature([2], "string"), "s", "the record holds 1 bytes value, .* wants 2"),
        (tio.FixedLenFeature([2], "float32"), "i", "holds int64 values, the schema wants float"),
        (tio.VarLenFeature("string"), "f", "holds float values, the schema wants bytes"),
        (tio.VarLenFeature("int64"), "s", "holds bytes values, the schema wants int64"),
        (tio.RawFeature("int32", [1]), "s", "has 1 bytes, the schema wants 4"),
        (tio.RawFeature("uint8", [1]), "none", "required but the record does not have it"),
        (tio.RawFeature("uint8", [1]), "ss", "holds 4 bytes values, the schema wants 1"),
        (tio.RawFeature("uint8", [1]), "i", "holds int64 values, the schema wants bytes"),
    ],
)
def test_errors_name_record_feature_and_reason(feature: Any, name: str, reason: str) -> None:
    whole = tio.parse_example(RECORD, {"i": tio.VarLenFeature("int64")})
    assert whole["i"].tolist() == [1, 2]
    with pytest.raises(DecodeError, match=reason) as caught:
        tio.parse_examples([RECORD, RECORD], {"f": tio.VarLenFeature("float32"), name: feature})
    error = caught.value
    assert (error.record, error.feature, error.path) == (0, name, None)
    place = "" if error.offset is None else f" offset {error.offset},"
    assert f"(record 0,{place} feature {name!r})" in str(error)


# ---- prediction ----

keys = st.lists(
    st.sampled_from(["a", "b", "cc", "a_much_longer_key", "k" * 60, "", "é"]), unique=True
)


@st.composite
def record_batches(draw: st.DrawFn) -> list[bytes]:
    """Records that resemble each other, as a writer's do, and now and then do not."""
    records: list[bytes] = []
    order = draw(keys)
    for _ in range(draw(st.integers(1, 8))):
        change = draw(st.integers(0, 9))
        if change == 0:
            order = draw(st.permutations(order))
        elif change == 1:
            order = draw(keys)
        elif change == 2 and records:
            records.append(draw(st.sampled_from(records)))
            continue
        message = Example()
        for key in order:
            feature = message.features.feature[key]
            kind = draw(st.sampled_from("iiifs"))
            size = draw(st.sampled_from([0, 1, 1, 1, 2, 3, 30]))
            if kind == "i":
                value = draw(st.sampled_from([0, 1, 127, 128, 300, -1, 2**40]))
                feature.int64_list.value.extend([value] * size)
            elif kind == "f":
                feature.float_list.value.extend([draw(st.floats(width=32))] * size)
            else:
                text = draw(st.binary(max_size=4)) * draw(st.sampled_from([1, 1, 40, 100]))
                feature.bytes_list.value.extend([text] * size)
        spelled = [entry(key, message.features.feature[key].SerializeToString()) for key in order]
        records.append(example(*spelled))
    return records


def outcome(records: list[bytes], schema: tio.Schema) -> Any:
    """Columns as plain values, or the place and reason of the error."""
    try:
        return batch_to_json(tio.parse_examples(records, schema))
    except DecodeError as error:
        return error.record, error.feature, error.reason


@given(
    record_batches(),
    st.dictionaries(
        st.sampled_from(["a", "b", "cc", "a_much_longer_key", "k" * 60, "", "é", "absent"]),
        st.sampled_from(["int64", "float32", "string"]),
        min_size=1,
    ),
    st.booleans(),
)
def test_a_batch_is_its_records_one_by_one(
    records: list[bytes], dtypes: dict[str, Any], fixed: bool
) -> None:
    defaults = {"int64": 7, "float32": 0.5, "string": b"none"}
    schema = tio.Schema(
        {
            name: tio.FixedLenFeature([], dtype, defaults[dtype])
            if fixed
            else tio.VarLenFeature(dtype)
            for name, dtype in dtypes.items()
        }
    )
    alone = [outcome([record], schema) for record in records]
    together = outcome(records, schema)
    bad = [i for i, result in enumerate(alone) if isinstance(result, tuple)]
    if bad:
        assert together == (bad[0], *alone[bad[0]][1:])
        records = [record for i, record in enumerate(records) if i not in bad]
        alone = [result for i, result in enumerate(alone) if i not in bad]
        together = outcome(records, schema)
    for name in schema:
        parts = [result[name] for result in alone]
        assert together[name]["values"] == [value for part in parts for value in part["values"]]
        if not fixed:
            lengths = [length for part in parts for length in part["row_lengths"]]
            assert together[name]["row_lengths"] == lengths


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_too_few_values_are_found_before_room_is_made_for_all(dtype: Any) -> None:
    record = example(entry("x", int_feature(1) if dtype == "int64" else float_feature(1.0)))
    with pytest.raises(tio.DecodeError, match=f"the schema wants {2**45}"):
        tio.parse_examples([record], {"x": tio.FixedLenFeature([2**45], dtype)})
