"""Encoded records, parsed by TensorFlow with random specs."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import settings

import torchrec_io as tio
from tests.conftest import TfOracle
from tests.interop.compare import assert_none, batch_question, sequence_question
from tests.interop.generate import (
    IN_CONTEXT,
    IN_EXAMPLES,
    IN_LISTS,
    Record,
    SequenceRecord,
    Values,
    draw_record,
    draw_sequence_record,
    draw_spec,
    encode,
)

ROUNDS = range(max(1, settings().max_examples // 100))
CASES = 100


def values_of(values: Values) -> list[Any] | None:
    return None if values.kind is None else values.values


def kinds_of(record: Record) -> dict[str, str]:
    return {key: values.kind for key, values in record.items() if values.kind is not None}


def write(record: Record) -> bytes:
    """Encode an Example with this library."""
    features = {key: values_of(values) for key, values in record.items()}
    return tio.encode_example(features, kinds_of(record))


def write_sequence(record: SequenceRecord) -> bytes:
    """Encode a SequenceExample with this library."""
    kinds = kinds_of(record.context)
    for key, steps in record.lists.items():
        for step in steps:
            kinds |= kinds_of({key: step})
    return tio.encode_sequence_example(
        {key: values_of(values) for key, values in record.context.items()},
        {key: [values_of(step) for step in steps] for key, steps in record.lists.items()},
        kinds,
    )


def compare(oracle: TfOracle, ours: list[dict[str, Any]], plain: list[dict[str, Any]]) -> None:
    """Check that TensorFlow's answers to both are equal."""
    wrong: list[str | None] = []
    for question, found, expected in zip(
        ours, oracle.ask_all(ours), oracle.ask_all(plain), strict=True
    ):
        same = found == expected or ("error" in found and "error" in expected)
        wrong.append(None if same else f"{question}\n  ours:  {found}\n  plain: {expected}")
    assert_none(wrong)


@pytest.mark.parametrize("seed", ROUNDS)
def test_examples(tf_oracle: TfOracle, seed: int) -> None:
    rng = random.Random(5000 + seed)
    ours, plain = [], []
    for _ in range(CASES):
        spec = draw_spec(rng, "f", IN_EXAMPLES)
        records = [draw_record(rng, spec) for _ in range(3)]
        ours.append(batch_question([write(record) for record in records], spec))
        plain.append(batch_question([encode(record) for record in records], spec))
    compare(tf_oracle, ours, plain)


def of_one_kind(record: SequenceRecord) -> bool:
    """Return whether all steps of each list have one kind, as encoding requires."""
    return all(len({step.kind for step in steps} - {None}) <= 1 for steps in record.lists.values())


@pytest.mark.parametrize("seed", ROUNDS)
def test_sequence_examples(tf_oracle: TfOracle, seed: int) -> None:
    rng = random.Random(6000 + seed)
    ours, plain = [], []
    for _ in range(CASES):
        context = draw_spec(rng, "c", IN_CONTEXT)
        sequence = draw_spec(rng, "l", IN_LISTS, in_lists=True)
        drawn = [draw_sequence_record(rng, context, sequence) for _ in range(3)]
        records = [record for record in drawn if of_one_kind(record)]
        ours.append(sequence_question([write_sequence(r) for r in records], context, sequence))
        plain.append(sequence_question([r.encode() for r in records], context, sequence))
    compare(tf_oracle, ours, plain)


def test_feature_without_a_kind_is_missing_for_tensorflow(tf_oracle: TfOracle) -> None:
    spec = {"x": {"type": "FixedLen", "dtype": "int64", "shape": [], "default": 7}}
    answer = tf_oracle.parse_example(tio.encode_examples([{"x": None}, {"x": 3}, {}]), spec)
    assert answer["features"]["x"]["values"] == [7, 3, 7]
