"""Generated cases contain the intended kinds of records."""

from __future__ import annotations

import random
from collections import Counter

from tests.interop import model
from tests.interop.generate import (
    IN_CONTEXT,
    IN_EXAMPLES,
    IN_LISTS,
    draw_record,
    draw_sequence_record,
    draw_spec,
)
from tests.interop.respell import keys_of, read, read_sequence, respell, respell_sequence

REASONS = {
    model.OUT_OF_SIZE,
    model.UNEQUAL_COUNTS,
    model.UNALIGNED,
    model.SPLITS_START,
    model.NO_SPLIT,
}


def test_examples_are_mostly_accepted_and_rejected_for_every_reason() -> None:
    rng = random.Random(1)
    found: Counter[str] = Counter()
    for _ in range(8000):
        spec = draw_spec(rng, "f", IN_EXAMPLES)
        found.update(model.reasons(spec, [draw_record(rng, spec)]) or {"none"})
    assert set(found) == {*REASONS, "none"}
    assert found["none"] > 5000


def test_sequence_examples_are_mostly_accepted_and_rejected_for_every_reason() -> None:
    rng = random.Random(1)
    found: Counter[str] = Counter()
    for _ in range(8000):
        context = draw_spec(rng, "c", IN_CONTEXT)
        sequence = draw_spec(rng, "l", IN_LISTS, in_lists=True)
        record = draw_sequence_record(rng, context, sequence)
        found.update(model.sequence_reasons(context, sequence, [record]) or {"none"})
    of_sparse = {model.OUT_OF_SIZE, model.UNEQUAL_COUNTS}
    assert set(found) == {*REASONS - of_sparse, model.UNEQUAL_STEPS, "none"}
    assert found["none"] > 5000


def test_protobuf_reads_every_encoding_alike() -> None:
    rng = random.Random(1)
    for _ in range(300):
        spec = draw_spec(rng, "f", IN_EXAMPLES)
        drawn = draw_record(rng, spec)
        record = read(respell(rng, drawn), keys_of(spec))
        assert {key: (found.kind, found.values) for key, found in record.items()} == {
            key: (values.kind, values.values)
            for key, values in drawn.items()
            if key in keys_of(spec)
        }
        context = draw_spec(rng, "c", IN_CONTEXT)
        sequence = draw_spec(rng, "l", IN_LISTS, in_lists=True)
        steps = draw_sequence_record(rng, context, sequence)
        spelled = respell_sequence(rng, steps)
        again = read_sequence(spelled, keys_of(context), keys_of(sequence))
        assert {key: [v.values for v in found] for key, found in again.lists.items()} == {
            key: [v.values for v in values] for key, values in steps.lists.items()
        }
