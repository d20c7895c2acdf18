"""SequenceExamples of any spec are parsed as TensorFlow parses them."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings

import torchrec_io as tio
from tests.conftest import TfOracle
from tests.interop import model
from tests.interop.compare import (
    Result,
    assert_none,
    comparable_sequence,
    disagreement,
    features_and_lengths,
    features_in,
    ours_sequence,
    ours_single_sequence,
    sequence_question,
    single_sequence_question,
    with_first_splits,
)
from tests.interop.generate import (
    SequenceRecord,
    Spec,
    draw_lists,
    draw_sequence_record,
    draw_sequence_specs,
)
from tests.support.forms import sequence_schema_of

ROUNDS = range(max(2, settings().max_examples // 25))
CASES = 100


def draw_cases(rng: random.Random, most: int) -> list[tuple[Spec, Spec, list[SequenceRecord]]]:
    cases = []
    for _ in range(CASES):
        context, sequence = draw_sequence_specs(rng)
        count = rng.randint(1, most)
        records = [draw_sequence_record(rng, context, sequence) for _ in range(count)]
        cases.append((context, sequence, records))
    return cases


@pytest.mark.parametrize("seed", ROUNDS)
def test_batches(tf_oracle: TfOracle, seed: int) -> None:
    cases = draw_cases(random.Random(seed), 5)
    # A Feature without a kind in the context is missing, so TensorFlow gets the record without it.
    questions = [
        sequence_question([model.with_kinds(r).encode() for r in records], context, sequence)
        for context, sequence, records in cases
    ]
    wrong = []
    accepted = 0
    for (context, sequence, records), question, answer in zip(
        cases, questions, tf_oracle.ask_all(questions), strict=True
    ):
        theirs = features_and_lengths(answer)
        found = ours_sequence([record.encode() for record in records], context, sequence)
        theirs = comparable_sequence(theirs, context, sequence, records)
        found = comparable_sequence(found, context, sequence, records)
        accepted += found is not None
        reasons = model.sequence_reasons(context, sequence, records)
        wrong.append(disagreement(question, found, theirs, reasons))
    assert_none(wrong)
    assert accepted > CASES // 2


def as_batch(features: Result) -> Result:
    return None if features is None else {"features": features}


@pytest.mark.parametrize("seed", ROUNDS)
def test_single_sequence_examples(tf_oracle: TfOracle, seed: int) -> None:
    cases = draw_cases(random.Random(1000 + seed), 1)
    questions = [
        single_sequence_question(model.with_kinds(record).encode(), context, sequence)
        for context, sequence, [record] in cases
    ]
    wrong = []
    for (context, sequence, [record]), question, answer in zip(
        cases, questions, tf_oracle.ask_all(questions), strict=True
    ):
        theirs = with_first_splits(features_in(answer))
        found = ours_single_sequence(record.encode(), context, sequence)
        if model.has_empty_splits(context, record.context):
            theirs = theirs or found  # with validate, TensorFlow rejects them
        theirs = comparable_sequence(as_batch(theirs), context, sequence, [record])
        found = comparable_sequence(as_batch(found), context, sequence, [record])
        reasons = model.sequence_reasons(context, sequence, [record])
        wrong.append(disagreement(question, found, theirs, reasons))
    assert_none(wrong)


@pytest.mark.parametrize("seed", ROUNDS)
def test_empty_batch_of_sequence_examples(tf_oracle: TfOracle, seed: int) -> None:
    rng = random.Random(2000 + seed)
    specs = [draw_sequence_specs(rng) for _ in range(CASES // 3)]
    questions = [sequence_question([], context, sequence) for context, sequence in specs]
    wrong = []
    for (context, sequence), question, answer in zip(
        specs, questions, tf_oracle.ask_all(questions), strict=True
    ):
        theirs = features_and_lengths(answer)
        found = ours_sequence([], context, sequence)
        required = any(
            feature["type"] == "FixedLen"
            and feature["default"] is None
            and 0 not in feature["shape"]
            for feature in context.values()
        )
        if required:
            assert theirs is None  # TensorFlow needs a first record
            theirs = found
        assert found is not None
        wrong.append(disagreement(question, found, theirs, set()))
    assert_none(wrong)


@pytest.mark.parametrize("seed", ROUNDS)
def test_steps_as_sparse_tensors(tf_oracle: TfOracle, seed: int) -> None:
    rng = random.Random(4000 + seed)
    spec = {"x": {"type": "VarLen", "dtype": "int64"}}
    drawn = [[draw_lists(rng, "x", spec["x"]) for _ in range(rng.randint(0, 4))] for _ in range(30)]
    batches = [[SequenceRecord({}, lists).encode() for lists in batch] for batch in drawn]
    questions = [sequence_question(records, {}, spec) for records in batches]
    for records, answer in zip(batches, tf_oracle.ask_all(questions), strict=True):
        expected = answer["features"]["x"]
        steps = tio.parse_sequence_examples(records, sequence_schema_of({}, spec))["x"]
        sparse = steps.to_sparse()
        assert sparse.indices().t().tolist() == expected["indices"]
        assert sparse.values().tolist() == expected["values"]
        assert list(sparse.shape) == expected["dense_shape"]
