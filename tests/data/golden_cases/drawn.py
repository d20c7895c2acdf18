"""Specs and records drawn at random, as the interop tests draw them.

What TensorFlow takes and we refuse is left out: that is in the table of differences.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tf_json import Json

from tests.interop import model
from tests.interop.generate import (
    IN_CONTEXT,
    IN_EXAMPLES,
    IN_LISTS,
    draw_record,
    draw_sequence_record,
    draw_spec,
    encode,
)


def drawn_examples(rng: random.Random, count: int) -> Iterator[Json]:
    """Questions about Examples, single and in batches."""
    while count:
        spec = draw_spec(rng, "f", IN_EXAMPLES)
        records = [draw_record(rng, spec) for _ in range(rng.randint(1, 3))]
        differs = any(
            model.has_ties(feature, records) or model.has_backward_ids(feature, records)
            for feature in spec.values()
        )
        if differs or model.reasons(spec, records):
            continue
        count -= 1
        encoded = [encode(record).hex() for record in records]
        if count % 3:
            yield {"op": "parse_example", "examples": encoded, "spec": spec}
        elif not model.has_empty_splits(spec, records[0], with_validate=False):
            yield {"op": "parse_single_example", "example": encoded[0], "spec": spec}


def drawn_sequences(rng: random.Random, count: int) -> Iterator[Json]:
    """Questions about SequenceExamples, single and in batches."""
    while count:
        context = draw_spec(rng, "c", IN_CONTEXT, 0)
        sequence = draw_spec(rng, "l", IN_LISTS, in_lists=True)
        records = [
            model.with_kinds(draw_sequence_record(rng, context, sequence))
            for _ in range(rng.randint(1, 3))
        ]
        contexts, steps = [record.context for record in records], model.steps_in(records)
        differs = any(model.has_backward_ids(spec, contexts) for spec in context.values())
        differs |= any(model.has_backward_ids(spec, steps) for spec in sequence.values())
        if differs or model.sequence_reasons(context, sequence, records):
            continue
        count -= 1
        encoded = [record.encode().hex() for record in records]
        specs = {"context": context, "sequence": sequence}
        if count % 3:
            yield {"op": "parse_sequence_example", "examples": encoded, **specs}
        elif not model.has_empty_splits(context, records[0].context, with_validate=False):
            yield {"op": "parse_single_sequence_example", "example": encoded[0], **specs}
