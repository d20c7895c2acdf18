"""Results of TensorFlow for Examples and SequenceExamples, stored in files, compared with ours.

See ``tests/data/README.md``. These tests need no TensorFlow.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.classic_line import through_samples
from tests.support.forms import columns_to_json, schema_of, sequence_schema_of
from torchrec_io.errors import DecodeError, SchemaError

DIRECTORY = Path(__file__).parents[1] / "data" / "golden"
GOLDEN = json.loads((DIRECTORY / "golden.json").read_text("utf-8"))
DRAWN = json.loads((DIRECTORY / "drawn.json").read_text("utf-8"))
CASES = GOLDEN["cases"]

# What TensorFlow says only when it parses and we when the schema is made.
REFUSED_SCHEMAS = {"refused/default_too_short", "refused/default_not_broadcast"}
# A Feature with an unknown field only: no kind is set, so there are no values.
READ_AS_PROTOBUF = {"refused/kind_without_such_number"}


def records_of(case: dict[str, Any]) -> list[bytes]:
    records = [bytes.fromhex(record) for record in GOLDEN["files"][case["file"]]["records"]]
    return records if case["records"] is None else [records[i] for i in case["records"]]


def parse(records: list[bytes], case: dict[str, Any]) -> dict[str, Any]:
    """What we make of the records of a case, in TensorFlow's form.

    Raises:
        SchemaError: the spec is refused.
        DecodeError: the records are.
    """
    if case.get("sequence") is not None:
        return parse_sequence(records, case)
    spec, schema = case["spec"], schema_of(case["spec"])
    if case.get("single"):
        [record] = records
        return {"features": columns_to_json(tio.parse_example(record, schema), spec, single=True)}
    batch = tio.parse_examples(records, schema)
    return {"features": through_samples(batch, lambda batch: columns_to_json(batch, spec))}


def parse_sequence(records: list[bytes], case: dict[str, Any]) -> dict[str, Any]:
    context, sequence = case["spec"], case["sequence"]
    schema = sequence_schema_of(context, sequence)
    spec, in_lists = {**context, **sequence}, frozenset(sequence)
    if case.get("single"):
        [record] = records
        sample = tio.parse_sequence_example(record, schema)
        return {"features": columns_to_json(sample, spec, single=True, in_lists=in_lists)}
    batch = tio.parse_sequence_examples(records, schema)
    steps = [name for name in sequence if sequence[name]["type"] == "FixedLenSequence"]

    def show(batch: tio.Batch) -> dict[str, Any]:
        features = columns_to_json(batch, spec, in_lists=in_lists)
        return {"features": features, "lengths": {n: batch.lengths[n].tolist() for n in steps}}

    shown: dict[str, Any] = through_samples(batch, show)
    return shown


# ---- cases with a name, of records in a file ----


def by_subject() -> dict[str, list[dict[str, Any]]]:
    """The cases by the first two parts of their names: a batch, and its records by themselves."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for case in CASES:
        groups.setdefault("/".join(case["name"].split("/")[:2]), []).append(case)
    return groups


SUBJECTS = by_subject()


@pytest.mark.parametrize("subject", SUBJECTS)
def test_golden(subject: str) -> None:
    for case in SUBJECTS[subject]:
        check_case(case)
        is_whole = case["records"] is None and not case.get("single")
        if is_whole and "features" in case["result"]:
            check_files(case)


def check_case(case: dict[str, Any]) -> None:
    records, expected = records_of(case), case["result"]
    if case["name"] in READ_AS_PROTOBUF:
        assert parse(records, case)["features"]["i"]["values"] == []
    elif "features" in expected:
        assert parse(records, case) == expected, case["name"]
    elif case["name"] in REFUSED_SCHEMAS:
        with pytest.raises(SchemaError):
            schema_of(case["spec"])
    # A spec that makes no sense is TensorFlow's ValueError.
    elif expected["error_class"] == "ValueError":
        with pytest.raises((SchemaError, DecodeError)):
            parse(records, case)
    else:
        with pytest.raises(DecodeError) as caught:
            parse(records, case)
        # Each of these cases ends with its one bad record.
        assert caught.value.record == len(records) - 1


def check_files(case: dict[str, Any]) -> None:
    """A dataset and a DataLoader must give the same as the function."""
    path = DIRECTORY / case["file"]
    spec, sequence = case["spec"], case.get("sequence")
    schema = schema_of(spec) if sequence is None else sequence_schema_of(spec, sequence)
    rows = len(records_of(case))
    [batch] = tio.TFRecordDataset(path, schema, batch_size=rows, num_threads=1)
    [collated] = DataLoader(tio.TFRecordDataset(path, schema), batch_size=rows)
    in_lists = frozenset(sequence or ())
    for each in (batch, collated):
        found = columns_to_json(each, {**spec, **(sequence or {})}, in_lists=in_lists)
        assert found == case["result"]["features"]


def test_golden_is_all_there() -> None:
    names = {case["name"] for case in CASES}
    assert len(names) == len(CASES) > 250
    assert names > REFUSED_SCHEMAS | READ_AS_PROTOBUF
    subjects = {name.split("/")[0] for name in names}
    assert subjects >= {"regular", "wire", "steps", "sparse", "ragged", "sequence", "refused"}


# ---- drawn at random, records and all ----


@pytest.mark.parametrize("part", ["examples", "sequences"])
def test_drawn(part: str) -> None:
    for number, case in enumerate(DRAWN[part]):
        question, expected = case["question"], case["result"]
        single = question["op"].startswith("parse_single")
        records = [question["example"]] if single else question["examples"]
        specs = {"spec": question.get("spec", question.get("context")), "single": single}
        if part == "sequences":
            specs["sequence"] = question["sequence"]
        parsed = [bytes.fromhex(record) for record in records]
        if "features" in expected:
            assert parse(parsed, specs) == expected, number
        else:
            with pytest.raises(DecodeError):
                parse(parsed, specs)


def test_drawn_is_all_there() -> None:
    taken = [
        "features" in case["result"] for part in ("examples", "sequences") for case in DRAWN[part]
    ]
    assert len(taken) > 170
    assert 0 < taken.count(False) < len(taken) // 4
