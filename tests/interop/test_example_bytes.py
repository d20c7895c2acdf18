"""Examples in their usual encoding, and in others that TensorFlow's writers do not produce.

The rule (see docs/differences.md): valid protobuf is read as protobuf reads it, invalid bytes are
rejected (``tests/parsing`` draws them), and a spec parses the values as TensorFlow does.
"""

from __future__ import annotations

import random
import struct
from functools import partial
from typing import Any

import pytest
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
)
from tests.interop.generate import IN_EXAMPLES, Spec, draw_record, draw_spec, encode
from tests.interop.respell import respell
from tests.support import wire
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


# ---- differences of TensorFlow and protobuf ----

INTS = {"x": {"type": "VarLen", "dtype": "int64"}}
FLOATS = {"x": {"type": "VarLen", "dtype": "float32"}}
GROUP = tag(9, wire.GROUP) + tag(9, wire.END_GROUP)
UNKNOWN = delimited(9, b"?")
LONG = varint(1, 11)


def ints(values: bytes) -> bytes:
    return example(entry("x", delimited(3, values)))


# name: record, TensorFlow's values of "x", values of this library. None: rejected.
DIFFERENCES: dict[str, tuple[bytes, list[Any] | None, list[Any] | None]] = {
    "two packed chunks": (ints(packed_ints([1]) + packed_ints([2])), [1], [1, 2]),
    "packed, then unpacked": (ints(packed_ints([1]) + unpacked_ints([2])), [1], [1, 2]),
    "unpacked, then packed": (ints(unpacked_ints([1]) + packed_ints([2])), None, [1, 2]),
    "the last of two kinds": (example(entry("x", float_feature(1.0) + int_feature(2))), None, [2]),
    "two lists of one kind": (example(entry("x", int_feature(1) + int_feature(2))), [1], [1, 2]),
    "unknown field in Features": (example(UNKNOWN, entry("x", int_feature(1))), None, [1]),
    "unknown field in an entry": (
        example(delimited(1, delimited(1, b"x") + delimited(2, int_feature(1)) + UNKNOWN)),
        None,
        [1],
    ),
    "unknown field before the list": (example(entry("x", UNKNOWN + int_feature(1))), None, [1]),
    "unknown field in a list": (ints(unpacked_ints([1]) + UNKNOWN), None, [1]),
    "group": (GROUP + example(entry("x", int_feature(1))), None, [1]),
    "entry without a value": (example(delimited(1, delimited(1, b"x"))), None, []),
    "entry without a key": (example(delimited(1, delimited(2, int_feature(1)))), None, []),
    "overlong tag of a part": (delimited(1, entry("x", int_feature(1)), tag_size=2), [], [1]),
    "overlong tag in a list": (ints(delimited(1, b"\x01", tag_size=2)), None, [1]),
    "length past the part": (b"\x0a\x7f" + entry("x", int_feature(1)), [1], None),
    "length past the end of the record": (b"\x0a\x05", [], None),
    "spare bytes in packed floats": (
        example(entry("x", delimited(2, delimited(1, struct.pack("<f", 1.0) + b"\0")))),
        ["3f800000"],
        None,
    ),
    "field number 0": (b"\x00\x01" + example(entry("x", int_feature(1))), [1], None),
    "long varint": (ints(delimited(1, LONG)), None, None),
    "key that is not UTF-8": (
        example(entry(b"\xff", int_feature(2)), entry("x", int_feature(1))),
        [1],
        [1],
    ),
    "last entry of a key without a kind": (
        example(entry("x", int_feature(1)), entry("x", b"")),
        [],
        [],
    ),
    "kind of no such number": (example(entry("x", delimited(4, b""))), None, []),
}
# The spec of "x", where it is not of integers.
SPECS: dict[str, Spec] = {"spare bytes in packed floats": FLOATS}


def test_table_of_differences(tf_oracle: TfOracle) -> None:
    for name, (record, tensorflow, torchrec_io) in DIFFERENCES.items():
        spec = SPECS.get(name, INTS)
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
