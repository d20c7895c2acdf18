"""Encoding of SequenceExamples, compared with protobuf's serializer."""

from __future__ import annotations

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
    array_cases,
    arrays,
    features_bytes,
    floats,
    given_part,
    ints,
    lists_bytes,
    plain_cases,
    stored_of,
    stored_part,
    texts,
)
from tests.support.messages import SequenceExample
from tests.support.wire import delimited


class Steps(NamedTuple):
    """A value of a sequence feature, and the contents that must be stored for each step."""

    value: Any
    stored: list[Stored]


@st.composite
def list_steps(draw: st.DrawFn) -> Steps:
    """Draw lists of steps of any form, all of one kind."""
    kind = draw(st.sampled_from(["int64", "float32", "string"]))
    steps: list[Any] = []
    stored: list[Stored] = []
    for _ in range(draw(st.integers(0, 5))):
        if draw(st.integers(0, 5)) == 0:
            steps.append(None)
            stored.append(NO_KIND)
            continue
        case = draw(
            st.one_of(plain_cases(), array_cases()).filter(
                lambda case: case.stored.kind == kind and len(case.stored.values) > 0
            )
        )
        steps.append(case.value)
        stored.append(case.stored)
    if any(step.kind for step in stored) and draw(st.booleans()):
        steps.append([])
        stored.append(Stored(kind, []))
    return Steps(tuple(steps) if draw(st.booleans()) else steps, stored)


@st.composite
def array_steps(draw: st.DrawFn) -> Steps:
    """Draw arrays and Tensors whose rows are steps."""
    made = draw(arrays().filter(lambda made: made.ndim > 0 and (made.size or made.dtype != object)))
    stored = [stored_of(np.asarray(row, made.dtype)) for row in made]
    if draw(st.booleans()) and made.dtype.kind in "biuf" and made.dtype.itemsize <= 8:
        plain = np.array(made, made.dtype.newbyteorder("="), order="C")
        return Steps(torch.from_numpy(plain), stored)
    return Steps(made, stored)


SEQUENCES = st.dictionaries(NAMES, st.one_of(list_steps(), array_steps()), max_size=5)


@given(st.none() | EXAMPLES, st.none() | SEQUENCES)
def test_sequence_bytes_equal_those_of_protobuf(
    context: dict[str, Case] | None, sequence: dict[str, Steps] | None
) -> None:
    expected = b""
    if context is not None:
        expected += delimited(1, features_bytes(stored_part(context)))
    if sequence is not None:
        stored = {name: steps.stored for name, steps in sequence.items()}
        expected += delimited(2, lists_bytes(stored))
    given_context = None if context is None else given_part(context)
    given_sequence = (
        None if sequence is None else {name: steps.value for name, steps in sequence.items()}
    )
    encoded = tio.encode_sequence_example(given_context, given_sequence)
    assert encoded == expected
    pairs = [(given_context, given_sequence)] * 2
    assert tio.encode_sequence_examples(iter(pairs)) == [expected] * 2
    message = SequenceExample.FromString(encoded)
    assert set(message.feature_lists.feature_list) == set(sequence or ())


def sequence_bytes(*steps: Stored) -> bytes:
    return delimited(2, lists_bytes({"x": list(steps)}))


@pytest.mark.parametrize(
    ("value", "steps"),
    [
        ([], []),
        (np.empty((0, 3), "float32"), []),
        (tio.BytesArray.from_list([]), []),
        ([1, 2.5], [floats(1), floats(2.5)]),
        ([[1], [], 2.5], [floats(1), floats(), floats(2.5)]),
        ([[[1], [2]], np.array([[3.5]])], [floats(1, 2), floats(3.5)]),
        ([None, None], [NO_KIND, NO_KIND]),
        ([np.int8(1), None, torch.tensor([2])], [ints(1), NO_KIND, ints(2)]),
        ([[], np.empty(0, "int64"), None], [ints(), ints(), NO_KIND]),
        (np.arange(4).reshape(2, 1, 2), [ints(0, 1), ints(2, 3)]),
        (np.empty((2, 0), "U1"), [texts(), texts()]),
        (np.array([None, 1, [2, 3]], object), [NO_KIND, ints(1), ints(2, 3)]),
        (torch.tensor([1.5, 2.5], dtype=torch.bfloat16), [floats(1.5), floats(2.5)]),
        (range(2), [ints(0), ints(1)]),
        (tio.BytesArray.from_list([b"a", b"b"]), [texts(b"a"), texts(b"b")]),
        (
            tio.BytesArray(torch.tensor([97, 98]).byte(), torch.tensor([0, 1, 2]), (1, 2)),
            [texts(b"a", b"b")],
        ),
        (
            tio.Ragged(torch.tensor([1, 2, 3]), torch.tensor([0, 1, 1, 3])),
            [ints(1), ints(), ints(2, 3)],
        ),
        (
            tio.Ragged(tio.BytesArray.from_list([b"a"]), torch.tensor([0, 0, 1])),
            [texts(), texts(b"a")],
        ),
    ],
)
def test_steps(value: Any, steps: list[Stored]) -> None:
    assert tio.encode_sequence_example(None, {"x": value}) == sequence_bytes(*steps)


def test_steps_of_named_kinds() -> None:
    def encode(value: Any, dtype: str) -> bytes:
        return tio.encode_sequence_example(None, {"x": value}, {"x": dtype})

    assert encode([[], None, []], "string") == sequence_bytes(texts(), NO_KIND, texts())
    assert encode([1, [2]], "float64") == sequence_bytes(floats(1), floats(2))
    assert encode([], "int64") == sequence_bytes()
    with pytest.raises(TypeError, match=r"1\.5 cannot be stored as int64"):
        encode([1, [1.5]], "int64")


def test_unset_parts_are_not_written() -> None:
    assert tio.encode_sequence_example(None, None) == b""
    assert tio.encode_sequence_example({}, None) == b"\x0a\x00"
    assert tio.encode_sequence_example(None, {}) == b"\x12\x00"
    assert tio.encode_sequence_example({}, {}) == b"\x0a\x00\x12\x00"
    context = {"x": 1, "y": [b"a"]}
    assert tio.encode_sequence_example(context, None) == tio.encode_example(context)
