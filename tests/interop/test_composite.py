"""SparseFeature and RaggedFeature: checks of each record, where TensorFlow checks the batch.

The other tests of this directory allow some reasons to reject a record. Each reason is proved here
by a case that TensorFlow accepts and this library rejects.
"""

from __future__ import annotations

from typing import Any

import pytest

import torchrec_io as tio
from tests.conftest import TfOracle
from tests.interop import model
from tests.interop.compare import (
    batch_question,
    comparable,
    features_in,
    ours,
    ours_sequence,
    ours_single,
    sequence_question,
    single_question,
    with_first_splits,
)
from tests.interop.generate import Record, SequenceRecord, Spec, Values, encode
from tests.support.forms import schema_of
from torchrec_io.errors import DecodeError

SPARSE: Spec = {
    "x": {"type": "Sparse", "dtype": "int64", "index_key": "i", "value_key": "v", "size": 4}
}


def ragged(*partitions: tuple[str, Any], **more: Any) -> Spec:
    """Return a spec of the values "v" and these partitions."""
    parts = [list(partition) for partition in partitions]
    return {
        "x": {"type": "Ragged", "dtype": "int64", "value_key": "v", "partitions": parts, **more}
    }


def record(**lists: list[int]) -> Record:
    return {key: Values("int64", values) for key, values in lists.items()}


SPLITS, LENGTHS, STARTS, LIMITS, IDS = (
    ragged((kind, "p"))
    for kind in ("RowSplits", "RowLengths", "RowStarts", "RowLimits", "ValueRowIds")
)

# reason to reject: name: spec, records, TensorFlow's row splits or indices.
TAKEN: dict[str, dict[str, tuple[Spec, list[Record], list[Any]]]] = {
    model.OUT_OF_SIZE: {
        "index past the size": (SPARSE, [record(i=[1, 4], v=[10, 40])], [[0, 1], [0, 4]]),
        "negative index": (SPARSE, [record(i=[-1], v=[10])], [[0, -1]]),
    },
    model.UNEQUAL_COUNTS: {
        "values pair up in the batch only": (
            SPARSE,
            [record(i=[1], v=[10, 20]), record(i=[2, 3], v=[30])],
            [[0, 1], [1, 2], [1, 3]],
        ),
    },
    model.UNALIGNED: {
        "lengths tally in the batch only": (
            ragged(("RowLengths", "p"), validate=True),
            [record(p=[1], v=[1, 2]), record(p=[2], v=[3])],
            [[0, 1, 2], [0, 1, 3]],
        ),
        "lengths beyond the values": (
            LENGTHS,
            [record(p=[2, 5], v=[1, 2, 3])],
            [[0, 2], [0, 2, 7]],
        ),
        "splits that end early": (SPLITS, [record(p=[0, 1], v=[1, 2])], [[0, 1], [0, 1]]),
        "starts that start late": (STARTS, [record(p=[1], v=[1, 2])], [[0, 1], [1, 2]]),
        "no starts for a value": (
            ragged(("RowStarts", "p"), validate=True),
            [record(p=[], v=[1])],
            [[0, 0], [1]],
        ),
        "limits that end early": (LIMITS, [record(p=[1], v=[1, 2])], [[0, 1], [0, 1]]),
        "row ids for the values of another record": (
            IDS,
            [record(p=[0], v=[1, 2]), record(p=[0, 0], v=[3])],
            [[0, 1, 2], [0, 1, 3]],
        ),
        "uniform rows of values from two records": (
            ragged(("UniformRowLength", 2), validate=True),
            [record(v=[1]), record(v=[2, 3, 4])],
            [[0, 0, 2]],
        ),
    },
    model.SPLITS_START: {
        "splits that start late": (SPLITS, [record(p=[1, 2], v=[1, 2])], [[0, 1], [0, 2]]),
        "splits that start before": (
            ragged(("RowSplits", "p"), validate=True),
            [record(p=[-1, 2], v=[1, 2])],
            [[0, 1], [0, 2]],
        ),
    },
    model.NO_SPLIT: {
        "splits past int32": (SPLITS, [record(p=[0, 2**32 + 1], v=[1])], [[0, 1], [0, 1]]),
    },
}


@pytest.mark.parametrize("reason", TAKEN)
def test_differences_from_tensorflow(tf_oracle: TfOracle, reason: str) -> None:
    for name, (spec, records, expected) in TAKEN[reason].items():
        encoded = [encode(values) for values in records]
        theirs = features_in(tf_oracle.ask(**batch_question(encoded, spec)))
        assert theirs is not None, name
        assert theirs["x"].get("row_splits", theirs["x"].get("indices")) == expected, name
        assert model.reasons(spec, records) == {reason}, name
        with pytest.raises(DecodeError):
            tio.parse_examples(encoded, schema_of(spec))


def test_steps_of_values_and_partitions_must_match(tf_oracle: TfOracle) -> None:
    spec = ragged(("RowLengths", "p"))
    steps = [Values("int64", [1]), Values("int64", [2])]
    lists = SequenceRecord({}, {"v": steps, "p": [Values("int64", [1, 1])]})
    theirs = tf_oracle.ask(**sequence_question([lists.encode()], {}, spec))
    assert theirs["features"]["x"]["row_splits"] == [[0, 2], [0, 2], [0, 1, 2]]
    assert model.list_reasons(spec, [lists]) == {model.UNEQUAL_STEPS}
    assert ours_sequence([lists.encode()], {}, spec) is None


@pytest.mark.parametrize("validate", [False, True])
@pytest.mark.parametrize("stored", [{}, {"p": []}])
def test_single_example_with_empty_splits_has_no_rows(
    tf_oracle: TfOracle, stored: dict[str, list[int]], validate: bool
) -> None:
    spec = ragged(("RowSplits", "p"), validate=validate)
    values = record(v=[], **stored)
    theirs = features_in(tf_oracle.ask(**single_question(encode(values), spec)))
    found = ours_single(encode(values), spec)
    assert found is not None
    assert found["x"]["row_splits"] == [[0]]
    assert model.has_empty_splits(spec, values) == validate
    # TensorFlow returns row splits without a first value, or reports that it is missing.
    assert (theirs is None) == validate
    if theirs is not None:
        assert theirs["x"]["row_splits"] == [[]]
        assert with_first_splits(theirs) == found


BACKWARDS = {
    "splits": (SPLITS, [0, 2, 1, 3]),
    "lengths": (LENGTHS, [2, -1, 2]),
    "starts": (STARTS, [0, 2, 1]),
    "limits": (LIMITS, [2, 1, 3]),
    "ids": (IDS, [1, 0, 1]),
}


def test_decreasing_row_splits(tf_oracle: TfOracle) -> None:
    for name, (spec, partition) in BACKWARDS.items():
        encoded = [encode(record(p=partition, v=[1, 2, 3]))]
        theirs = features_in(tf_oracle.ask(**batch_question(encoded, spec)))
        assert theirs is not None, name
        assert ours(encoded, spec) == theirs, name
        strict = {"x": {**spec["x"], "validate": True}}
        assert features_in(tf_oracle.ask(**batch_question(encoded, strict))) is None, name
        assert ours(encoded, strict) is None, name


@pytest.mark.parametrize("ids", [[1, 0], [0, 2, 1]])
def test_row_ids_whose_last_is_not_the_greatest(tf_oracle: TfOracle, ids: list[int]) -> None:
    values = record(p=ids, v=list(range(len(ids))))
    theirs = features_in(tf_oracle.ask(**batch_question([encode(values)], IDS)))
    found = ours([encode(values)], IDS)
    assert theirs is not None
    assert found is not None
    assert found["x"]["row_splits"][1][-1] == len(ids)
    assert theirs["x"]["row_splits"][1][-1] < len(ids)  # the other values are in no row
    assert model.has_backward_ids(IDS["x"], [values])
    assert comparable(found, IDS, [values]) == comparable(theirs, IDS, [values])


def test_equal_indices_keep_the_stored_order(tf_oracle: TfOracle) -> None:
    indices = [1, 0] * 20
    encoded = [encode(record(i=indices, v=list(range(40))))]
    theirs = features_in(tf_oracle.ask(**batch_question(encoded, SPARSE)))
    found = ours(encoded, SPARSE)
    assert theirs is not None
    assert found is not None
    assert found["x"]["values"] == [*range(1, 40, 2), *range(0, 40, 2)]
    assert model.sorted_entries(theirs["x"]) == model.sorted_entries(found["x"])
    assert model.has_ties(SPARSE["x"], [record(i=indices, v=list(range(40)))])
