"""SequenceFeature of arrays and images, compared with decoding one by one."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.examples import example_of, sequence_example_of
from tests.support.images import decoded, encoded
from torchrec_io.checks import counted
from torchrec_io.errors import DecodeError, SchemaError

Rows = tio.RaggedFeature
Raw = tio.RawFeature
PAIR = Raw("int16", [2])


def pair(seed: int) -> list[int]:
    return [seed, -seed]


def stored(seed: int) -> bytes:
    return np.array(pair(seed), "<i2").tobytes()


def picture(height: int, width: int, seed: int = 0) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    return encoded(pixels)


def parse(records: Sequence[bytes], **specs: Any) -> tio.Batch:
    return tio.parse_examples(records, specs)


def sequence(element: Any = PAIR, *arguments: Any, **options: Any) -> tio.SequenceFeature:
    return tio.SequenceFeature(element, *arguments, **options)


def failure_of(records: Sequence[bytes], feature: Any, **others: Any) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        parse(records, x=feature, **others)
    assert caught.value.feature == "x"
    return caught.value


# ---- elements of one shape ----


@given(st.lists(st.lists(st.integers(0, 99), max_size=4), max_size=4), st.booleans())
def test_arrays_of_one_shape_are_rows(seeds: list[list[int]], packed: bool) -> None:
    def data(seed: int) -> bytes:
        return zlib.compress(stored(seed)) if packed else stored(seed)

    records = [example_of(x=[data(seed) for seed in row]) for row in seeds]
    element = Raw("int16", [2], compression="zlib" if packed else None)
    batch = parse(records, x=sequence(element))
    assert isinstance(batch["x"], tio.Ragged)
    column: Any = batch["x"]
    assert (column.values.dtype, column.offsets.dtype) == (torch.int16, torch.int64)
    assert tuple(column.values.shape) == (sum(map(len, seeds)), 2)
    assert column.tolist() == [[pair(seed) for seed in row] for row in seeds]
    narrow: Any = parse(records, x=sequence(element, row_splits_dtype="int32"))["x"]
    assert (narrow.offsets.dtype, narrow.tolist()) == (torch.int32, column.tolist())


def test_with_a_length_they_are_one_tensor() -> None:
    records = [example_of(x=[stored(1), stored(2)]), example_of(x=[stored(3), stored(4)])]
    column = parse(records, x=sequence(PAIR, 2))["x"]
    assert (tuple(column.shape), column.dtype) == ((2, 2, 2), torch.int16)
    assert column.tolist() == [[pair(1), pair(2)], [pair(3), pair(4)]]
    assert tuple(parse([], x=sequence(PAIR, 2))["x"].shape) == (0, 2, 2)
    assert tuple(parse([example_of()], x=sequence(PAIR, 0))["x"].shape) == (1, 0, 2)
    for bad, count, hint in (
        (example_of(x=[stored(1)]), 1, ""),
        (example_of(), 0, "; the record is empty"),
    ):
        error = failure_of([records[0], bad], sequence(PAIR, 2))
        assert (error.record, error.reason) == (
            1,
            f"it has {counted(count, 'element')}, the schema wants 2{hint}",
        )


def test_quantized_frames_are_float32() -> None:
    frames = [bytes([0, 255]), bytes([128, 1])]
    feature = sequence(Raw("uint8", [2], dequantize=(-2, 2)))
    alone = Raw("uint8", [2], dequantize=(-2, 2))
    expected = [parse([example_of(x=[frame])], x=alone)["x"][0].tolist() for frame in frames]
    assert parse([example_of(x=frames)], x=feature)["x"].tolist() == [expected]
    record = sequence_example_of({}, {"x": [[frame] for frame in frames]})
    schema = tio.Schema(context={}, sequence={"x": feature})
    assert tio.parse_sequence_examples([record], schema)["x"].tolist() == [expected]


# ---- partitions ----


def test_partitions_make_rows_of_rows() -> None:
    records = [
        example_of(v=[stored(n) for n in range(6)], inner=[1, 2, 0, 3], outer=[3, 1]),
        example_of(outer=[0]),
        example_of(v=[stored(7)], inner=[0, 1], outer=[2]),
    ]
    partitions = [Rows.RowLengths("outer"), Rows.RowLengths("inner")]
    expected = [
        [[[pair(0)], [pair(1), pair(2)], []], [[pair(3), pair(4), pair(5)]]],
        [[]],
        [[[], [pair(7)]]],
    ]
    for element in (PAIR, Raw("int16", [None])):
        batch = parse(records, x=sequence(element, key="v", partitions=partitions))
        assert [one.tolist() for one in batch["x"]] == expected
        assert [sample["x"].tolist() for sample in batch.samples()] == expected
    assert isinstance(parse(records, x=sequence(PAIR, None, "v", partitions))["x"], tio.Ragged)


def test_rows_of_one_length_are_a_dimension() -> None:
    records = [example_of(x=[stored(n) for n in range(4)]), example_of()]
    for element in (PAIR, Raw("int16", [None])):
        feature = sequence(element, partitions=[Rows.UniformRowLength(2)])
        rows = [one.tolist() for one in parse(records, x=feature)["x"]]
        assert rows == [[[pair(0), pair(1)], [pair(2), pair(3)]], []]
        shapes = [tuple(one.shape) for one in parse(records[:1], x=feature)["x"]]
        assert shapes == [(2, 2, 2)]
        reason = failure_of([example_of(x=[stored(1)])], feature).reason
        assert reason == "its values cannot be divided into rows of 2"


# ---- elements of other shapes ----


def test_arrays_of_other_shapes_are_a_list() -> None:
    arrays = [[np.ones((2, 3)), np.zeros((2, 3))], [], [np.full((1, 0), 5.0)]]
    records = [
        example_of(
            x=[array.tobytes() for array in row],
            shapes=[size for array in row for size in array.shape],
        )
        for row in arrays
    ]
    for shape, empty in ((None, (0,)), ([None, None], (0, 0, 0))):
        element = Raw("float64", shape, "shapes")
        column = parse(records, x=sequence(element))["x"]
        assert [tuple(one.shape) for one in column] == [(2, 2, 3), empty, (1, 1, 0)]
        assert column[0].tolist() == [array.tolist() for array in arrays[0]]
        assert {one.dtype for one in column} == {torch.float64}
    batch = parse(records, x=sequence(element))
    assert [tuple(sample["x"].shape) for sample in batch.samples()][1:] == [empty, (1, 1, 0)]
    again = tio.collate(batch.samples())["x"]
    assert [one.tolist() for one in again] == [one.tolist() for one in column]


@pytest.mark.parametrize(
    ("features", "reason"),
    [
        ({"x": [b"ab", b"abc"], "s": [2, 3]}, "its elements are of different shapes: [2], but [3]"),
        (
            {"x": [b"ab", b"ab"], "s": [2]},
            "'s' holds 1 value, which cannot be the shapes of 2 arrays",
        ),
        ({"x": [b"ab", b"ab"], "s": []}, "it has 2 bytes, its shape [] of uint8 needs 1"),
        ({"s": [2]}, "'s' holds 1 value, which cannot be the shapes of 0 arrays"),
        ({"x": [b"ab", b"a"], "s": [2, 2]}, "it has 1 byte, its shape [2] of uint8 needs 2"),
    ],
)
def test_shapes_that_do_not_fit(features: dict[str, Any], reason: str) -> None:
    good = example_of(x=[b"abc", b"def"], s=[3, 3])
    error = failure_of([good, example_of(**features)], sequence(Raw("uint8", shape_key="s")))
    assert error.record == 1
    assert error.reason.startswith(reason)


def test_each_size_of_an_array_stands_in_a_feature_of_its_own() -> None:
    feature = sequence(Raw("uint8", shape_key=["h", "w"]))
    records = [example_of(x=[b"abcdef", b"ghijkl"], h=[2, 2], w=[3, 3]), example_of()]
    column = parse(records, x=feature)["x"]
    assert [tuple(one.shape) for one in column] == [(2, 2, 3), (0, 0, 0)]
    assert bytes(column[0].flatten().tolist()) == b"abcdefghijkl"
    error = failure_of([records[0], example_of(x=[b"ab", b"ab"], h=[1, 1], w=[2])], feature)
    assert error.record == 1
    assert error.reason == "'w' holds 1 value, which cannot be the shapes of 2 arrays"


def test_each_array_finds_its_own_size() -> None:
    records = [example_of(x=[b"abcd", b"efgh"]), example_of(), example_of(x=[b"ij"])]
    column = parse(records, x=sequence(Raw("uint8", [None, 2])))["x"]
    assert [tuple(one.shape) for one in column] == [(2, 2, 2), (0, 0, 2), (1, 1, 2)]
    reason = failure_of([example_of(x=[b"abcd", b"ef"])], sequence(Raw("uint8", [None]))).reason
    assert reason == "its elements are of different shapes: [4], but [2] of element 1"


def test_rows_of_arrays_of_other_shapes() -> None:
    records = [example_of(x=[b"a" * size] * 3, s=[size] * 3, n=[1, 2]) for size in (2, 3, 2)]
    feature = sequence(Raw("uint8", shape_key="s"), partitions=[Rows.RowLengths("n")])
    batch = parse(records, x=feature)
    expected = [[[[97] * size], [[97] * size] * 2] for size in (2, 3, 2)]
    again = pickle.loads(pickle.dumps(batch))
    joined = tio.collate(batch.samples())
    padded = tio.pad_collate(batch)
    for column in (batch["x"], again["x"], joined["x"], padded["x"], batch.to("cpu")["x"]):
        assert [one.tolist() for one in column] == expected
    alike = tio.collate(batch.samples()[::2])["x"]
    assert isinstance(alike, tio.Ragged)
    assert alike.tolist() == expected[::2]


# ---- images ----


@pytest.mark.parametrize(("layout", "dtype"), [("CHW", "uint8"), ("HWC", "float32")])
def test_images_are_those_of_an_image_feature(layout: Any, dtype: str) -> None:
    rows = [[picture(4, 5, n) for n in range(3)], [], [picture(4, 5, 9)]]
    records = [example_of(x=row) for row in rows]
    options: dict[str, Any] = {"layout": layout, "dtype": dtype}
    expected = [[decoded(data, **options).tolist() for data in row] for row in rows]
    resized: dict[str, Any] = {**options, "size": (3, 2)}
    small = [[decoded(data, **resized).tolist() for data in row] for row in rows]
    batch = parse(
        records,
        x=sequence(tio.ImageFeature(**options)),
        y=sequence(tio.ImageFeature(**resized), key="x"),
        z=sequence(tio.ImageFeature(**{**options, "crop": (0, 0, 2, 2)}), key="x"),
    )
    assert [one.tolist() for one in batch["x"]] == expected
    assert batch["y"].tolist() == small
    shape = (3, 0, 0) if layout == "CHW" else (0, 0, 3)
    assert tuple(batch["x"][1].shape) == tuple(batch["z"][1].shape) == (0, *shape)
    one = parse(records[:1], x=sequence(tio.ImageFeature(**resized), 3))["x"]
    assert one.tolist() == small[:1]


def test_a_bad_image_is_an_error_of_its_record() -> None:
    good = example_of(x=[picture(2, 3)] * 5)
    bad = example_of(x=[picture(2, 3), picture(2, 3)[:40], b"none"])
    for image in (tio.ImageFeature(), tio.ImageFeature(size=(2, 3))):
        error = failure_of([good, good, bad, bad], sequence(image))
        assert error.record == 2
        assert error.reason.startswith("the image cannot be decoded")


# ---- feature lists ----


def test_each_step_has_one_element() -> None:
    records = [
        sequence_example_of({}, {"x": [[stored(1)], [stored(2)]]}),
        sequence_example_of({}, {}),
        sequence_example_of({}, {"x": [[stored(3)]]}),
    ]
    rows = [[pair(1), pair(2)], [], [pair(3)]]

    def read(feature: Any) -> Any:
        schema = tio.Schema(context={}, sequence={"y": feature})
        return tio.parse_sequence_examples(records, schema)["y"]

    assert read(sequence(PAIR, key="x")).tolist() == rows
    listed = read(sequence(Raw("int16", [None]), key="x"))
    assert [one.tolist() for one in listed] == rows
    for steps, reason in (
        ([[stored(1)], []], "step 1 holds 0 bytes values, the schema wants 1"),
        ([[stored(1), stored(2)]], "step 0 holds 2 bytes values, the schema wants 1"),
    ):
        schema = tio.Schema(context={}, sequence={"x": sequence()})
        bad = sequence_example_of({}, {"x": steps})
        with pytest.raises(DecodeError) as caught:
            tio.parse_sequence_examples([*records, bad], schema)
        assert (caught.value.record, caught.value.feature) == (3, "x")
        assert caught.value.reason == reason


def test_shapes_of_steps_stand_in_a_list_of_their_own() -> None:
    lists: dict[str, Any] = {"x": [[b"abcdef"], [b"ghijkl"]], "s": [[2, 3], [2, 3]]}
    schema = tio.Schema(context={}, sequence={"x": sequence(Raw("uint8", shape_key="s"))})
    [array] = tio.parse_sequence_examples([sequence_example_of({}, lists)], schema)["x"]
    assert array.tolist() == [[[97, 98, 99], [100, 101, 102]], [[103, 104, 105], [106, 107, 108]]]


# ---- values ----


def test_a_range_is_of_each_element() -> None:
    records = [example_of(x=[stored(1), stored(2)]), example_of(x=[stored(1), stored(7)])]
    for shape in ([2], [None]):
        feature = sequence(Raw("int16", shape, valid_range=(-7, 6)))
        error = failure_of(records, feature)
        assert error.record == 1
        assert error.reason == "the value 7 is outside the valid range [-7, 6]"


def test_other_kinds_of_values_are_refused() -> None:
    assert "int64 values" in failure_of([example_of(x=[5])], sequence()).reason


# ---- specs ----


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"element": tio.VarLenFeature("int64")}, "must be one of .*ImageFeature"),
        ({"element": tio.SequenceFeature(PAIR)}, "must be one of .*ImageFeature"),
        ({"element": tio.ImageFeature(mixed="pad")}, "excludes mixed"),
        ({"element": tio.ImageFeature(decoder=None)}, "excludes decoder=None"),
        ({"element": Raw("int8", fixed_length=3)}, "excludes fixed_length"),
        ({"element": Raw("int8", [2], key="v")}, "excludes key"),
        ({"length": -1}, "non-negative integer"),
        ({"length": True}, "non-negative integer"),
        ({"length": 2, "partitions": [Rows.RowLengths("n")]}, "either length or partitions"),
        ({"partitions": ["n"]}, "must be partitions of RaggedFeature"),
        ({"partitions": 5}, "partitions must be a sequence"),
        ({"row_splits_dtype": "int16"}, "dtype must be one of"),
        ({"key": ""}, "key must be"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        tio.SequenceFeature(**{"element": PAIR, **arguments})


def test_invalid_schemas_are_refused() -> None:
    parted = sequence(PAIR, partitions=[Rows.RowLengths("n")])
    with pytest.raises(SchemaError, match="takes no partitions"):
        tio.Schema(context={}, sequence={"x": parted})
    with pytest.raises(SchemaError, match="must name an integer feature"):
        tio.Schema({"x": sequence(Raw("int8", shape_key="s")), "s": tio.VarLenFeature("float32")})
    with pytest.raises(SchemaError, match="must be read in one way"):
        tio.Schema({"x": sequence(PAIR), "y": Raw("int16", [2], key="x")})
