"""SequenceExamples in valid and invalid encodings that TensorFlow's writers do not produce.

The rule is that of Examples: valid protobuf is read as protobuf reads it, invalid bytes are
rejected, and a spec parses the values as TensorFlow does.
"""

from __future__ import annotations

import random
import struct
from functools import partial
from typing import Any

import pytest
from google.protobuf.message import DecodeError as ProtobufDecodeError
from hypothesis import settings

from tests.conftest import TfOracle
from tests.interop import model
from tests.interop.compare import (
    assert_none,
    comparable_sequence,
    disagreement,
    features_and_lengths,
    ours_sequence,
    quiet,
    sequence_question,
)
from tests.interop.generate import (
    SequenceRecord,
    Spec,
    draw_sequence_record,
    draw_sequence_specs,
)
from tests.interop.respell import damage, keys_of, read_sequence, respell_sequence
from tests.support import wire
from tests.support.spellings import has_groups
from tests.support.wire import (
    delimited,
    entry,
    float_feature,
    int_feature,
    packed_ints,
    tag,
    unpacked_ints,
)

ROUNDS = range(max(2, settings().max_examples // 25))
CASES = 100


@pytest.mark.parametrize("seed", ROUNDS)
def test_every_encoding_has_the_values_that_tensorflow_parses(
    tf_oracle: TfOracle, seed: int
) -> None:
    rng = random.Random(seed)
    cases = []
    for _ in range(CASES):
        specs = draw_sequence_specs(rng)
        cases.append((specs, [draw_sequence_record(rng, *specs) for _ in range(rng.randint(1, 5))]))
    # A Feature without a kind in the context is missing, so TensorFlow gets the record without it.
    questions = [
        sequence_question([model.with_kinds(r).encode() for r in records], *specs)
        for specs, records in cases
    ]
    wrong = []
    accepted = 0
    for (specs, records), answer in zip(cases, tf_oracle.ask_all(questions), strict=True):
        theirs = comparable_sequence(features_and_lengths(answer), *specs, records)
        reasons = model.sequence_reasons(*specs, records)
        for spell in (SequenceRecord.encode, partial(respell_sequence, rng)):
            spelled = [spell(record) for record in records]
            found = comparable_sequence(ours_sequence(spelled, *specs), *specs, records)
            accepted += found is not None
            asked = sequence_question(spelled, *specs)
            wrong.append(disagreement(asked, found, theirs, reasons))
    assert_none(wrong)
    assert accepted > CASES


@pytest.mark.parametrize("seed", ROUNDS)
def test_damaged_records_are_rejected_or_read_like_protobuf(tf_oracle: TfOracle, seed: int) -> None:
    rng = random.Random(3000 + seed)
    cases = []
    illegal = 0
    for _ in range(3 * CASES):
        context, sequence = draw_sequence_specs(rng)
        record = damage(rng, respell_sequence(rng, draw_sequence_record(rng, context, sequence)))
        try:
            values = read_sequence(record, keys_of(context), keys_of(sequence))
        except ProtobufDecodeError:
            found = ours_sequence([record], context, sequence)
            assert found is None, sequence_question([record], context, sequence)
            illegal += 1
        else:
            cases.append((context, sequence, record, values))
    questions = [
        sequence_question([model.with_kinds(values).encode()], context, sequence)
        for context, sequence, _, values in cases
    ]
    wrong = []
    for case, answer in zip(cases, tf_oracle.ask_all(questions), strict=True):
        context, sequence, record, values = case
        found = ours_sequence([record], context, sequence)
        if found is None and has_groups(record):
            continue  # in groups, protobuf's Python parser accepts invalid data
        asked = sequence_question([record], context, sequence)
        found = comparable_sequence(found, context, sequence, [values])
        theirs = comparable_sequence(features_and_lengths(answer), context, sequence, [values])
        reasons = model.sequence_reasons(context, sequence, [values])
        wrong.append(disagreement(asked, quiet(found), theirs, reasons))
    assert_none(wrong)
    assert len(cases) > CASES // 3
    assert illegal > CASES // 3


# ---- differences of TensorFlow and protobuf ----

INTS = {"type": "VarLen", "dtype": "int64"}
RAGGED = {"type": "Ragged", "dtype": "int64"}
STRINGS = {"type": "Ragged", "dtype": "string"}
FLOATS = {"type": "VarLen", "dtype": "float32"}
UNKNOWN = delimited(9, b"?")


def steps(*features: bytes) -> bytes:
    """Return a SequenceExample with one feature list "x"."""
    return delimited(2, entry("x", b"".join(delimited(1, feature) for feature in features)))


def ints(values: bytes) -> bytes:
    """Return one step of an int64 list."""
    return steps(delimited(3, values))


# name: record, TensorFlow's values of "x", values of this library. None: rejected.
DIFFERENCES: dict[str, tuple[bytes, list[Any] | None, list[Any] | None]] = {
    "value before key": (
        delimited(2, delimited(1, delimited(2, delimited(1, int_feature(1))) + delimited(1, b"x"))),
        None,
        [1],
    ),
    "entry without a value": (delimited(2, delimited(1, delimited(1, b"x"))), None, []),
    "unknown field in FeatureLists": (
        delimited(2, UNKNOWN + entry("x", delimited(1, int_feature(1)))),
        None,
        [1],
    ),
    "unknown field in a FeatureList": (
        delimited(2, entry("x", UNKNOWN + delimited(1, int_feature(1)))),
        None,
        [1],
    ),
    "unknown field in a step": (steps(int_feature(1) + UNKNOWN), None, [1]),
    "unknown field alone in a step": (steps(UNKNOWN), None, []),
    "group": (tag(9, wire.GROUP) + tag(9, wire.END_GROUP) + steps(int_feature(1)), None, [1]),
    "two packed chunks": (ints(packed_ints([1]) + packed_ints([2])), None, [1, 2]),
    "packed, then unpacked": (ints(packed_ints([1]) + unpacked_ints([2])), None, [1, 2]),
    "two lists of one kind": (steps(int_feature(1) + int_feature(2)), None, [1, 2]),
    "the last of two kinds": (steps(float_feature(1.0) + int_feature(2)), None, [2]),
    "two parts of FeatureLists": (steps(int_feature(1)) + steps(int_feature(2)), [2], [2]),
    "the last of a key is empty": (steps(int_feature(1)) + steps(), [], []),
    "overlong tag of a step": (
        delimited(2, entry("x", delimited(1, int_feature(1), tag_size=2))),
        None,
        [1],
    ),
    "step past its list": (delimited(2, entry("x", b"\x0a\x7f" + int_feature(1))), [1], None),
    "FeatureLists past the record": (b"\x12\x7f" + entry("x", b""), [], None),
    "bytes value past its step": (steps(delimited(1, b"\x0a\x7fab")), None, None),
    "spare bytes in packed floats": (
        steps(delimited(2, delimited(1, struct.pack("<f", 1.0) + b"\0"))),
        None,
        None,
    ),
    "field number 0": (b"\x00\x01" + steps(int_feature(1)), [1], None),
    "an empty list of another kind": (steps(delimited(2, b"")), None, None),
    "a ragged step without a kind": (steps(b"", int_feature(1)), [1], [1]),
}
# The spec of "x", where it is not of integers.
SPECS: dict[str, Spec] = {
    "bytes value past its step": STRINGS,
    "spare bytes in packed floats": FLOATS,
    "a ragged step without a kind": RAGGED,
}


def test_table_of_differences(tf_oracle: TfOracle) -> None:
    for name, (record, tensorflow, torchrec_io) in DIFFERENCES.items():
        spec = SPECS.get(name, INTS)
        answer = tf_oracle.ask(**sequence_question([record], {}, {"x": spec}))
        for result, expected in (
            (features_and_lengths(answer), tensorflow),
            (ours_sequence([record], {}, {"x": spec}), torchrec_io),
        ):
            values = None if result is None else result["features"]["x"]["values"]
            assert values == expected, name


@pytest.mark.parametrize("lists", [b"\xff\xff\xff", b"\x0a\x05\x0a"])
def test_unread_parts_must_be_valid(tf_oracle: TfOracle, lists: bytes) -> None:
    context = delimited(1, entry("c", int_feature(1)))
    asked: list[tuple[Spec, Spec]] = [({"c": INTS}, {}), ({}, {"x": INTS})]
    for record in (context + delimited(2, lists), delimited(1, lists) + steps(int_feature(1))):
        for specs in asked:
            assert "error" in tf_oracle.ask(**sequence_question([record], *specs))
            assert ours_sequence([record], *specs) is None


def test_context_feature_without_a_kind_is_missing(tf_oracle: TfOracle) -> None:
    spec = {"c": {"type": "FixedLen", "dtype": "int64", "shape": [], "default": 5}}
    record = delimited(1, entry("c", b""))
    assert "error" in tf_oracle.ask(**sequence_question([record], spec, {}))
    found = ours_sequence([record], spec, {})
    assert found is not None
    assert found["features"]["c"]["values"] == [5]


def test_empty_batch_with_a_required_context_feature(tf_oracle: TfOracle) -> None:
    spec = {"c": {"type": "FixedLen", "dtype": "int64", "shape": [2], "default": None}}
    assert "error" in tf_oracle.ask(**sequence_question([], spec, {}))
    found = ours_sequence([], spec, {})
    assert found is not None
    assert found["features"]["c"]["shape"] == [0, 2]
