"""Schema.infer: the choice of records, errors, and real files."""

from __future__ import annotations

import copy
import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.conftest import WILD, Wild
from tests.support.inferring import (
    example_of,
    finding,
    infer,
    rows_of,
    sequence_of,
)
from tests.support.tfrecord import frame, write_tfrecord
from tests.support.wire import delimited
from torchrec_io._records.sequential import iter_records

# ---- which records are looked at ----


def files_of(tmp_path: Path, sizes: list[int], compression: str | None = None) -> list[Path]:
    """Files of that many records, with a feature named for the file that counts them."""
    return [
        write_tfrecord(
            tmp_path / f"{file:03}.tfrecord",
            [example_of(**{f"file{file}": [number]}, any=[0]) for number in range(size)],
            compression,
        )
        for file, size in enumerate(sizes)
    ]


def looked_at(schema: tio.Schema, sizes: list[int], compression: str | None) -> dict[int, int]:
    """How many records of each file: from its beginning to its end, or of a stream the first."""
    assert schema.findings is not None
    found = {
        int(name.removeprefix("file")): seen
        for name, seen in schema.findings.items()
        if name != "any"
    }
    for file, seen in found.items():
        last = sizes[file] - 1 if compression is None and seen.present > 1 else seen.present - 1
        assert seen.extent == (0, last)
    return {file: seen.present for file, seen in sorted(found.items())}


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize(
    ("sizes", "most", "expected"),
    [
        ([50], 10, [10]),
        ([50], 1000, [50]),
        ([50, 50], 10, [5, 5]),
        ([50, 50, 50], 12, [4, 4, 4]),
        ([50, 2, 50], 12, [5, 2, 5]),
        ([2, 50, 0, 3], 30, [2, 25, 0, 3]),
        ([5, 5, 5, 5, 5, 5], 3, [1, 0, 1, 0, 1, 0]),
        ([5, 5], 1, [1, 0]),
        ([0, 5, 0, 5, 0, 5], 3, [0, 1, 0, 1, 0, 1]),
    ],
)
def test_records_come_evenly_from_all_files(
    tmp_path: Path, sizes: list[int], most: int, expected: list[int], compression: str | None
) -> None:
    schema = tio.Schema.infer(files_of(tmp_path, sizes, compression), max_records=most)
    assert finding(schema, "any").records == sum(expected)
    assert looked_at(schema, sizes, compression) == {f: n for f, n in enumerate(expected) if n}
    assert schema.inspected == (sum(expected), sum(sizes))
    assert tio.Schema.infer(tmp_path, most).findings == schema.findings


@given(sizes=st.lists(st.integers(0, 6), min_size=1, max_size=6), most=st.integers(1, 20))
def test_no_record_more_and_none_less(tmp_path: Path, sizes: list[int], most: int) -> None:
    paths = files_of(tmp_path, sizes)
    if not any(sizes):
        with pytest.raises(tio.SchemaError, match="cannot be inferred without records"):
            tio.Schema.infer(paths, most)
        return
    schema = tio.Schema.infer(paths, most)
    found = looked_at(schema, sizes, None)
    assert sum(found.values()) == min(most, sum(sizes))
    if most >= len(sizes):  # nobody is left out
        assert set(found) == {file for file, size in enumerate(sizes) if size}


def test_a_rare_file_is_seen(tmp_path: Path) -> None:
    for number in range(20):
        write_tfrecord(tmp_path / f"part-{number}", [example_of(x=[1])] * 100)
    write_tfrecord(tmp_path / "part-20", [example_of(x=[1, 2])] * 100)
    assert tio.Schema.infer(str(tmp_path / "part-*"), 50)["x"] == tio.VarLenFeature("int64")


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_only_inspected_records_are_read(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    good = frame(example_of(x=[1])) * 100_000
    whole = compress(good + b"damage")
    (tmp_path / "x").write_bytes(whole[: len(whole) * 3 // 4])
    schema = tio.Schema.infer(tmp_path / "x", 100)
    assert finding(schema, "x").records == 100
    with pytest.raises((tio.TruncatedFileError, tio.CorruptRecordError)):
        tio.Schema.infer(tmp_path / "x", 10**6)


# ---- what goes wrong ----


def test_records_that_are_no_examples(tmp_path: Path) -> None:
    records = [example_of(x=[1]), b"plain text"]
    path = write_tfrecord(tmp_path / "x", records)
    with pytest.raises(tio.DecodeError, match=r"neither a tf\.train\.Example nor") as caught:
        tio.Schema.infer(path)
    place = (caught.value.path, caught.value.record, caught.value.offset)
    assert place == (str(path), 1, len(frame(records[0])))


def test_an_example_that_is_no_sequence_among_sequences(tmp_path: Path) -> None:
    odd = example_of(x=[1]) + delimited(2, b"\xff")  # an unknown field of an Example
    assert infer(tmp_path, [odd]) == tio.Schema({"x": tio.FixedLenFeature([], "int64")})
    assert tio.parse_examples([odd], infer(tmp_path, [odd]))["x"].tolist() == [1]
    with pytest.raises(tio.DecodeError, match=r"is not a tf\.train\.SequenceExample") as caught:
        infer(tmp_path, [sequence_of({}, {"s": [[1]]}), odd])
    assert caught.value.record == 1


def test_damaged_records(tmp_path: Path) -> None:
    stream = bytearray(frame(example_of(x=[1])) * 3)
    stream[-6] ^= 1
    (tmp_path / "x").write_bytes(stream)
    with pytest.raises(tio.CorruptRecordError) as caught:
        tio.Schema.infer(tmp_path / "x")
    assert (caught.value.path, caught.value.record) == (str(tmp_path / "x"), 2)
    with pytest.raises(tio.CorruptRecordError):
        tio.Schema.infer(tmp_path / "x", 2)  # the first and the last one
    assert finding(tio.Schema.infer(tmp_path / "x", 1), "x").records == 1


def test_bad_records_are_not_inspected(tmp_path: Path) -> None:
    damaged = bytearray(frame(example_of(a=[1, 2])))
    damaged[-1] ^= 1
    (tmp_path / "in").write_bytes(damaged + frame(b"junk") + frame(example_of(a=[1])))
    schema = tio.Schema.infer(tmp_path / "in", on_error="skip")
    assert schema == tio.Schema({"a": tio.FixedLenFeature([], "int64")})
    with pytest.raises(ValueError, match="must be one of 'raise', 'skip'"):
        tio.Schema.infer(tmp_path / "in", on_error="ignore")  # type: ignore[arg-type]


def test_nothing_to_infer_from(tmp_path: Path) -> None:
    with pytest.raises(tio.SchemaError, match="cannot be inferred without records"):
        infer(tmp_path, [])
    with pytest.raises(
        tio.SchemaError, match=r"2 records inspected, but no features found.*Examples"
    ):
        infer(tmp_path, [b"", b""])
    with pytest.raises(tio.SchemaError, match=r"'x' is left out \(no record has.*, and 1 other f"):
        infer(tmp_path, [example_of(x=("none", []), y=("none", []))])
    with pytest.raises(tio.SchemaError) as caught:
        infer(tmp_path, [example_of(**{"x" * 10_000: ("none", [])})])
    assert len(str(caught.value)) < 300
    with pytest.raises(FileNotFoundError):
        tio.Schema.infer(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="paths is empty"):
        tio.Schema.infer([])


@pytest.mark.parametrize("most", [0, -1, True, 1.5, "10"])
def test_max_records_is_a_whole_number(tmp_path: Path, most: Any) -> None:
    with pytest.raises(ValueError, match="max_records must be"):
        infer(tmp_path, [example_of(x=[1])], max_records=most)


# ---- findings ----


def test_findings_are_of_inferred_schemas_only(tmp_path: Path) -> None:
    schema = infer(tmp_path, [example_of(x=[1], y=("none", []))])
    plain = tio.Schema({"x": tio.FixedLenFeature([], "int64")})
    assert plain.findings is None
    assert schema == plain
    assert plain == schema
    assert repr(schema) == repr(plain)
    assert tio.Schema.from_json(schema.to_json()).findings is None
    for again in (pickle.loads(pickle.dumps(schema)), copy.deepcopy(schema)):
        assert again == schema
        assert again.findings == schema.findings
    assert schema.findings is not None
    with pytest.raises(TypeError):
        schema.findings["new"] = schema.findings["x"]  # type: ignore[index]  # read-only


# ---- real files ----

_FILE = WILD / "MANIFEST.json"
_ENTRIES = json.loads(_FILE.read_text("utf-8"))["files"] if _FILE.is_file() else []
REAL = [
    entry["path"]
    for entry in _ENTRIES
    if entry["payload_kind"] in ("Example", "SequenceExample") and entry["records"]
]


@pytest.mark.parametrize("path", REAL, ids=REAL)
def test_real_files(wild: Wild, path: str) -> None:
    known = next(entry for entry in wild.manifest["files"] if entry["path"] == path)
    schema = tio.Schema.infer(wild.path / path)
    assert schema.inspected == (known["records"], known["records"])
    records = [data for _, data in iter_records(wild.path / path)]
    parse = tio.parse_sequence_examples if schema.is_sequence else tio.parse_examples
    batch = parse(records, schema)
    assert rows_of(batch) == known["records"]
    assert schema.is_sequence == (known["payload_kind"] == "SequenceExample")
    for name, column in batch.items():
        found = finding(schema, name)
        if found.kind != "bytes" and found.extent is not None and found.where == "context":
            values = column.values if isinstance(column, tio.Ragged) else column
            assert isinstance(values, torch.Tensor)
            values = values[~values.isnan()]
            assert (values.min().item(), values.max().item()) == found.extent
    if not schema.is_sequence:
        assert schema.findings is not None
        assert schema.findings.keys() == known["features"].keys()
        for name, feature in known["features"].items():
            found = finding(schema, name)
            assert {found.kind} == (set(feature["kinds"]) - {"none"} or {"none"})
            if found.present == feature["records"] and found.counts is not None:
                assert found.counts == (feature["min_count"], feature["max_count"])


@pytest.mark.usefixtures("wild")
def test_real_files_are_there() -> None:
    assert len(REAL) > 40
