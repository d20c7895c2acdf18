"""Comparison of results of this library with TensorFlow's."""

from __future__ import annotations

from typing import Any

import torchrec_io as tio
from tests.interop import model
from tests.interop.generate import Record, SequenceRecord, Spec
from tests.support.classic_line import through_samples
from tests.support.forms import columns_to_json, schema_of, sequence_schema_of
from torchrec_io.errors import DecodeError, SchemaError

Result = dict[str, Any] | None  # None: rejected


# ---- results of this library ----


def ours(records: list[bytes], spec: Spec) -> Result:
    """Parse a batch of Examples with this library."""
    try:
        batch = tio.parse_examples(records, schema_of(spec))
    except (DecodeError, SchemaError):
        return None
    return through_samples(batch, lambda batch: columns_to_json(batch, spec))


def ours_single(record: bytes, spec: Spec) -> Result:
    """Parse one Example with this library."""
    try:
        return columns_to_json(tio.parse_example(record, schema_of(spec)), spec, single=True)
    except (DecodeError, SchemaError):
        return None


def ours_sequence(records: list[bytes], context: Spec, sequence: Spec) -> Result:
    """Parse a batch of SequenceExamples with this library. Return columns and lengths."""
    try:
        batch = tio.parse_sequence_examples(records, sequence_schema_of(context, sequence))
    except (DecodeError, SchemaError):
        return None
    spec = {**context, **sequence}

    def show(batch: tio.Batch) -> dict[str, Any]:
        lengths = {name: batch.lengths[name].tolist() for name in lengths_of(sequence)}
        features = columns_to_json(batch, spec, in_lists=frozenset(sequence))
        return {"features": features, "lengths": lengths}

    return through_samples(batch, show)


def lengths_of(sequence: Spec) -> list[str]:
    """Return the features that have lengths."""
    return sorted(name for name, spec in sequence.items() if spec["type"] == "FixedLenSequence")


# ---- results of TensorFlow ----


def batch_question(records: list[bytes], spec: Spec) -> dict[str, Any]:
    return {"op": "parse_example", "examples": [r.hex() for r in records], "spec": spec}


def single_question(record: bytes, spec: Spec) -> dict[str, Any]:
    return {"op": "parse_single_example", "example": record.hex(), "spec": spec}


def sequence_question(records: list[bytes], context: Spec, sequence: Spec) -> dict[str, Any]:
    return {
        "op": "parse_sequence_example",
        "examples": [record.hex() for record in records],
        "context": context,
        "sequence": sequence,
    }


def features_in(answer: dict[str, Any]) -> Result:
    """Return the features that TensorFlow parsed, or None if it rejected the input."""
    features: Result = answer.get("features")
    return features


def features_and_lengths(answer: dict[str, Any]) -> Result:
    """Return TensorFlow's features and lengths of SequenceExamples, or None if rejected."""
    return answer if "features" in answer else None


# ---- comparison ----


def disagreement(
    question: dict[str, Any], found: Result, theirs: Result, reasons: set[str]
) -> str | None:
    """Describe the difference of results, or return None. A reason to reject allows one."""
    expected = None if reasons else theirs
    if found == expected:
        return None
    return f"{question}\n  reasons: {reasons}\n  TensorFlow: {theirs}\n  ours:       {found}"


def comparable(result: Result, spec: Spec, records: list[Record]) -> Result:
    """Remove parts of a result that TensorFlow leaves undefined or loses; see ``model``."""
    if result is None:
        return None
    return {name: comparable_value(value, spec[name], records) for name, value in result.items()}


def comparable_value(value: dict[str, Any], spec: Spec, records: list[Record]) -> dict[str, Any]:
    if model.has_ties(spec, records):
        return model.sorted_entries(value)
    if model.has_backward_ids(spec, records):
        return {key: found for key, found in value.items() if key != "row_splits"}
    return value


def comparable_sequence(
    result: Result, context: Spec, sequence: Spec, records: list[SequenceRecord]
) -> Result:
    """Do the same for a result of SequenceExamples, with its lengths."""
    if result is None:
        return None
    features = result["features"]
    contexts, steps = [record.context for record in records], model.steps_in(records)
    found = {
        name: comparable_value(value, context[name], contexts)
        if name in context
        else comparable_value(value, sequence[name], steps)
        for name, value in features.items()
    }
    return {**result, "features": found}


def with_first_splits(result: Result) -> Result:
    """Add a 0 to the RowSplits of one record that were stored as an empty list.

    TensorFlow then returns row splits without values, which no other code accepts.
    """
    if result is None:
        return None
    fixed = {}
    for name, value in result.items():
        fixed[name] = value
        if "row_splits" in value:
            fixed[name] = {**value, "row_splits": [s or [0] for s in value["row_splits"]]}
    return fixed


def quiet(result: Any) -> Any:
    """Make signalling NaNs of a result quiet, as a conversion to a Python float does."""
    if isinstance(result, dict):
        if result.get("dtype") == "float32":
            bits = (int(value, 16) for value in result["values"])
            values = [format(b | 1 << 22 if is_nan(b) else b, "08x") for b in bits]
            return {**result, "values": values}
        return {key: quiet(value) for key, value in result.items()}
    return result


def is_nan(bits: int) -> bool:
    """Return whether these are the bits of a float32 NaN."""
    return bits & 0x7FFFFFFF > 0x7F800000


def assert_none(wrong: list[str | None]) -> None:
    """Fail with the first few disagreements."""
    found = [text for text in wrong if text is not None]
    assert not found, "\n".join([f"{len(found)} disagreements", *found[:3]])
