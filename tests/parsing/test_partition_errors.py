"""Errors of RaggedFeature partitions that do not match their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchrec_io as tio
from tests.parsing.test_partitions import Feature, Unit, feature_of, partitions_of, parts_of
from tests.support.examples import example_of, sequence_example_of
from torchrec_io.errors import DecodeError

MISFITS: list[tuple[str | int, list[int], list[int], str]] = [
    # kind, values, stored numbers, reason
    ("splits", [1, 2], [1, 2], "do not start with 0"),
    ("splits", [1, 2], [0, 3], "do not end where its values end"),
    ("splits", [1, 2], [], "do not end where its values end"),
    ("splits", [], [0, 1], "do not end where its values end"),
    ("splits", [1, 2], [0, 2**31], "is not a row split"),
    ("limits", [1, 2], [1], "do not end where its values end"),
    ("limits", [1, 2], [], "do not end where its values end"),
    ("limits", [1, 2], [2**63 - 1], "is not a row split"),
    ("starts", [1, 2], [], "does not start with 0"),
    ("starts", [], [1], "does not start with 0"),
    ("starts", [1, 2], [0, 2**31], "is not a row split"),
    ("lengths", [1, 2], [1, 2], "do not add up"),
    ("lengths", [1, 2], [], "do not add up"),
    ("lengths", [1, 2], [2**62, -(2**62), 2], "is not a row split"),
    ("ids", [1, 2], [0], "not have one row id for each value"),
    ("ids", [1, 2], [], "not have one row id for each value"),
    ("ids", [1, 2], [-1, 0], "a row id is negative"),
    ("ids", [1, 2], [0, 4096], "far more rows than there are values"),
    ("ids", [1, 2], [0, 2**31], "is not a row split"),
    (2, [1, 2, 3], [], "cannot be divided into rows of 2"),
]
INVALID: list[tuple[str, list[int], list[int], str]] = [
    # what only validate=True refuses
    ("splits", [1, 2], [0, 2, 1, 2], "overlap or are out of order"),
    ("splits", [1, 2], [0, -1, 2], "overlap or are out of order"),
    ("limits", [1, 2], [2, 1, 2], "overlap or are out of order"),
    ("starts", [1, 2], [0, 2, 1], "overlap or are out of order"),
    ("starts", [1, 2], [0, -1, 1], "overlap or are out of order"),
    ("starts", [1, 2], [0, 3], "overlap or are out of order"),
    ("lengths", [1, 2], [3, -1], "overlap or are out of order"),
    ("ids", [1, 2], [1, 0], "overlap or are out of order"),
]
GOOD: dict[str | int, tuple[list[int], list[int]]] = {
    "splits": ([1, 2], [0, 1, 2]),
    "limits": ([1, 2], [1, 2]),
    "starts": ([1, 2], [0, 1]),
    "lengths": ([1, 2], [1, 1]),
    "ids": ([1, 2], [0, 1]),
    2: ([1, 2], []),
}


def check_refused(
    kind: str | int, values: list[int], stored: list[int], reason: str, *, validate: bool
) -> None:
    """Checks that record 1 of three is the one refused: as an Example, and as step 1 of three."""
    feature = Feature("int64", "values", partitions_of([kind]), "int32", validate)
    good_step = dict(zip(("values", "p0"), GOOD[kind], strict=True))
    steps = [good_step, {"values": values, "p0": stored}, good_step]
    records = [example_of(**step) for step in steps]
    good, bad = (
        sequence_example_of({}, {key: [step[key] for step in chosen] for key in ("values", "p0")})
        for chosen in ([good_step] * 3, steps)
    )
    parsers: list[Callable[[], object]] = [
        lambda: tio.parse_examples(records, {"x": feature}),
        lambda: tio.parse_sequence_examples([good, bad, good], tio.Schema(sequence={"x": feature})),
    ]
    for parse in parsers:
        with pytest.raises(DecodeError, match=reason) as caught:
            parse()
        assert (caught.value.record, caught.value.feature) == (1, "x")


@pytest.mark.parametrize(("kind", "values", "stored", "reason"), MISFITS)
def test_rows_that_do_not_match_their_values_are_refused(
    kind: str | int, values: list[int], stored: list[int], reason: str
) -> None:
    for validate in (False, True):
        check_refused(kind, values, stored, reason, validate=validate)


@pytest.mark.parametrize(("kind", "values", "stored", "reason"), INVALID)
def test_validate_checks_the_order(
    kind: str, values: list[int], stored: list[int], reason: str
) -> None:
    check_refused(kind, values, stored, reason, validate=True)
    loose = feature_of([kind])
    unit = Unit(values, [stored])
    column = tio.parse_examples([example_of(**parts_of(unit))] * 2, {"x": loose})["x"]
    assert len(column) == 2  # as in TensorFlow: what the rows then are is the user's affair


def test_numbers_up_to_the_ends_of_int32() -> None:
    for kind, stored in [("splits", [0, 2**31 - 1, 2]), ("starts", [0, 2**31 - 1])]:
        record = example_of(values=[1, 2], p0=stored)
        column = tio.parse_examples([record], {"x": feature_of([kind])})["x"]
        assert column.offsets.dtype == torch.int32
        assert column.values.offsets.tolist() == [0, 2**31 - 1, 2]
    wide = example_of(values=[1, 2], p0=[0, 2**31, 2])
    column = tio.parse_examples([wide], {"x": feature_of(["splits"], row_splits_dtype="int64")})[
        "x"
    ]
    assert column.values.offsets.tolist() == [0, 2**31, 2]
    beyond = example_of(values=[1, 2], p0=[0, 2**40 + 1, 2])
    with pytest.raises(DecodeError, match="is not a row split"):
        tio.parse_examples([beyond], {"x": feature_of(["splits"], row_splits_dtype="int64")})


def test_offsets_of_a_batch_that_pass_int32_are_refused() -> None:
    # Each record's own numbers fit, but the second one's count on from the first one's values.
    good, bad = example_of(values=[1, 2], p0=[0]), example_of(values=[1], p0=[0, 2**31 - 1])
    for splits_dtype in ("int32", "int64"):
        schema = {"x": feature_of(["starts"], row_splits_dtype=splits_dtype)}
        if splits_dtype == "int64":
            offsets = tio.parse_examples([good, bad], schema)["x"].values.offsets
            assert offsets.tolist() == [0, 2, 2**31 + 1, 3]
            continue
        with pytest.raises(DecodeError, match="beyond the range of the batch") as caught:
            tio.parse_examples([good, bad, good], schema)
        assert caught.value.record == 1


@pytest.mark.parametrize(
    "lists",
    [
        {"values": [[1, 2], [3]], "p0": [[2]]},
        {"values": [[1, 2]], "p0": [[2], []]},
        {"values": [[1, 2]]},
        {"p0": [[0]]},
        {"p0": [[]]},
    ],
)
def test_steps_that_differ_in_number_are_refused(lists: Any) -> None:
    good = sequence_example_of({}, {"values": [[1], [], [2, 3]], "p0": [[1], [], [2]]})
    bad = sequence_example_of({}, lists)
    for validate in (False, True):
        schema = tio.Schema(sequence={"x": feature_of(["lengths"], validate=validate)})
        assert tio.parse_sequence_example(good, schema)["x"].tolist() == [[[1]], [], [[2, 3]]]
        with pytest.raises(DecodeError, match="'p0' has another number of steps") as caught:
            tio.parse_sequence_examples([good, sequence_example_of({}, {}), bad], schema)
        assert (caught.value.record, caught.value.feature) == (2, "x")
