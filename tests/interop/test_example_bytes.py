"""Examples in valid and invalid encodings that TensorFlow's writers do not produce.

The rule (see docs/differences.md): valid protobuf is read as protobuf reads it, invalid bytes are
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
    Result,
    assert_none,
    batch_question,
    comparable,
    disagreement,
    features_in,
    ours,
    quiet,
)
from tests.interop.generate import IN_EXAMPLES, Spec, draw_record, draw_spec, encode
from tests.interop.respell import damage, keys_of, read, respell
from tests.support import wire
from tests.support.spellings import has_groups
from tests.support.wire import (
    delimited,
    entry,
    example,
    float_feature,
    int_feature,
    packed_ints,
    tag,
    unpacked_ints,
    varint,
)

# Each example is a request to another process.
ROUNDS = range(max(2, settings().max_examples // 25))
CASES = 100


def theirs(oracle: TfOracle, records: list[bytes], spec: Spec) -> Result:
    """Parse a batch with TensorFlow."""
    return features_in(oracle.parse_example(records, spec))


# ---- random specs and encodings ----


@pytest.mark.parametrize("seed", ROUNDS)
def test_every_encoding_has_the_values_that_tensorflow_parses(
    tf_oracle: TfOracle, seed: int
) -> None:
    rng = random.Random(seed)
    cases = []
    for _ in range(CASES):
        spec = draw_spec(rng, "f", IN_EXAMPLES)
        cases.append((spec, [draw_record(rng, spec) for _ in range(rng.choice([0, 1, 2, 3, 6]))]))
    questions = [batch_question([encode(r) for r in records], spec) for spec, records in cases]
    wrong = []
    accepted = 0
    for (spec, records), answer in zip(cases, tf_oracle.ask_all(questions), strict=True):
        expected = comparable(features_in(answer), spec, records)
        for spell in (encode, partial(respell, rng)):
            spelled = [spell(record) for record in records]
            found = comparable(ours(spelled, spec), spec, records)
            accepted += found is not None
            asked = batch_question(spelled, spec)
            wrong.append(disagreement(asked, found, expected, model.reasons(spec, records)))
    assert_none(wrong)
    assert accepted > CASES


@pytest.mark.parametrize("seed", ROUNDS)
def test_damaged_records_are_rejected_or_read_like_protobuf(tf_oracle: TfOracle, seed: int) -> None:
    rng = random.Random(3000 + seed)
    cases = []
    illegal = 0
    for _ in range(3 * CASES):
        spec = draw_spec(rng, "f", IN_EXAMPLES)
        record = damage(rng, respell(rng, draw_record(rng, spec)))
        try:
            cases.append((spec, record, read(record, keys_of(spec))))
        except ProtobufDecodeError:
            assert ours([record], spec) is None, (spec, record)
            illegal += 1
    questions = [batch_question([encode(values)], spec) for spec, _, values in cases]
    wrong = []
    for (spec, record, values), answer in zip(cases, tf_oracle.ask_all(questions), strict=True):
        found = comparable(ours([record], spec), spec, [values])
        if found is None and has_groups(record):
            continue  # in groups, protobuf's Python parser accepts invalid data
        expected = comparable(features_in(answer), spec, [values])
        asked = batch_question([record], spec)
        wrong.append(disagreement(asked, quiet(found), expected, model.reasons(spec, [values])))
    assert_none(wrong)
    assert len(cases) > CASES // 3
    assert illegal > CASES // 3


# ---- differences of TensorFlow and protobuf ----

INTS = {"x": {"type": "VarLen", "dtype": "int64"}}
FLOATS = {"x": {"type": "VarLen", "dtype": "float32"}}
GROUP = tag(9, wire.GROUP) + tag(9, wire.END_GROUP)
UNKNOWN = delimited(9, b"?")
LONG = varint(1, 11)


def ints(values: bytes) -> bytes:
    return example(entry("x", delimited(3, values)))


# name: spec, record, TensorFlow's values, values of this library. None: rejected.
DIFFERENCES: dict[str, tuple[Spec, bytes, list[Any] | None, list[Any] | None]] = {
    "two packed chunks": (INTS, ints(packed_ints([1]) + packed_ints([2])), [1], [1, 2]),
    "packed, then unpacked": (INTS, ints(packed_ints([1]) + unpacked_ints([2])), [1], [1, 2]),
    "unpacked, then packed": (INTS, ints(unpacked_ints([1]) + packed_ints([2])), None, [1, 2]),
    "the last of two kinds": (
        INTS,
        example(entry("x", float_feature(1.0) + int_feature(2))),
        None,
        [2],
    ),
    "two lists of one kind": (
        INTS,
        example(entry("x", int_feature(1) + int_feature(2))),
        [1],
        [1, 2],
    ),
    "unknown field in Features": (INTS, example(UNKNOWN, entry("x", int_feature(1))), None, [1]),
    "unknown field in an entry": (
        INTS,
        example(delimited(1, delimited(1, b"x") + delimited(2, int_feature(1)) + UNKNOWN)),
        None,
        [1],
    ),
    "unknown field before the list": (
        INTS,
        example(entry("x", UNKNOWN + int_feature(1))),
        None,
        [1],
    ),
    "unknown field in a list": (INTS, ints(unpacked_ints([1]) + UNKNOWN), None, [1]),
    "group": (INTS, GROUP + example(entry("x", int_feature(1))), None, [1]),
    "entry without a value": (INTS, example(delimited(1, delimited(1, b"x"))), None, []),
    "entry without a key": (INTS, example(delimited(1, delimited(2, int_feature(1)))), None, []),
    "overlong tag of a part": (
        INTS,
        delimited(1, entry("x", int_feature(1)), tag_size=2),
        [],
        [1],
    ),
    "overlong tag in a list": (INTS, ints(delimited(1, b"\x01", tag_size=2)), None, [1]),
    "length past the part": (INTS, b"\x0a\x7f" + entry("x", int_feature(1)), [1], None),
    "length past the end of the record": (INTS, b"\x0a\x05", [], None),
    "spare bytes in packed floats": (
        FLOATS,
        example(entry("x", delimited(2, delimited(1, struct.pack("<f", 1.0) + b"\0")))),
        ["3f800000"],
        None,
    ),
    "field number 0": (INTS, b"\x00\x01" + example(entry("x", int_feature(1))), [1], None),
    "long varint": (INTS, ints(delimited(1, LONG)), None, None),
    "key that is not UTF-8": (
        INTS,
        example(entry(b"\xff", int_feature(2)), entry("x", int_feature(1))),
        [1],
        [1],
    ),
    "last entry of a key without a kind": (
        INTS,
        example(entry("x", int_feature(1)), entry("x", b"")),
        [],
        [],
    ),
    "kind of no such number": (INTS, example(entry("x", delimited(4, b""))), None, []),
}


def test_table_of_differences(tf_oracle: TfOracle) -> None:
    for name, (spec, record, tensorflow, torchrec_io) in DIFFERENCES.items():
        for result, expected in (
            (theirs(tf_oracle, [record], spec), tensorflow),
            (ours([record], spec), torchrec_io),
        ):
            assert (None if result is None else result["x"]["values"]) == expected, name


def test_default_if_the_last_entry_has_no_kind(tf_oracle: TfOracle) -> None:
    spec = {"x": {"type": "FixedLen", "dtype": "int64", "shape": [], "default": 5}}
    record = example(entry("x", int_feature(1)), entry("x", b""))
    assert theirs(tf_oracle, [record], spec) == {
        "x": int64s([1])
    }  # the value of the previous entry
    assert ours([record], spec) == {"x": int64s([5])}


def int64s(values: list[int]) -> dict[str, Any]:
    return {"dtype": "int64", "shape": [len(values)], "values": values}
