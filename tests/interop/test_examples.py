"""Examples of any spec are parsed as TensorFlow parses them."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings

from tests.conftest import TfOracle
from tests.interop import model
from tests.interop.compare import (
    assert_none,
    batch_question,
    comparable,
    disagreement,
    features_in,
    ours,
    ours_single,
    single_question,
    with_first_splits,
)
from tests.interop.generate import IN_EXAMPLES, Record, Spec, draw_record, draw_spec, encode

ROUNDS = range(max(2, settings().max_examples // 25))
CASES = 100


def draw_cases(rng: random.Random) -> list[tuple[Spec, list[Record]]]:
    cases = []
    for _ in range(CASES):
        spec = draw_spec(rng, "f", IN_EXAMPLES)
        cases.append((spec, [draw_record(rng, spec) for _ in range(rng.choice([0, 1, 2, 3, 6]))]))
    return cases


@pytest.mark.parametrize("seed", ROUNDS)
def test_batches(tf_oracle: TfOracle, seed: int) -> None:
    cases = draw_cases(random.Random(seed))
    questions = [batch_question([encode(r) for r in records], spec) for spec, records in cases]
    wrong = []
    accepted = 0
    for (spec, records), question, answer in zip(
        cases, questions, tf_oracle.ask_all(questions), strict=True
    ):
        theirs = comparable(features_in(answer), spec, records)
        found = comparable(ours([encode(r) for r in records], spec), spec, records)
        accepted += found is not None
        wrong.append(disagreement(question, found, theirs, model.reasons(spec, records)))
    assert_none(wrong)
    assert accepted > CASES // 2


@pytest.mark.parametrize("seed", ROUNDS)
def test_single_examples(tf_oracle: TfOracle, seed: int) -> None:
    cases = [
        (spec, records[0]) for spec, records in draw_cases(random.Random(1000 + seed)) if records
    ]
    questions = [single_question(encode(record), spec) for spec, record in cases]
    wrong = []
    for (spec, record), question, answer in zip(
        cases, questions, tf_oracle.ask_all(questions), strict=True
    ):
        found = comparable(ours_single(encode(record), spec), spec, [record])
        theirs = comparable(with_first_splits(features_in(answer)), spec, [record])
        if model.has_empty_splits(spec, record):
            theirs = theirs or found  # with validate, TensorFlow rejects them
        wrong.append(disagreement(question, found, theirs, model.reasons(spec, [record])))
    assert_none(wrong)
