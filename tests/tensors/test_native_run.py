"""Batches read and parsed in one go are those that are read one by one, up to the first bad one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.datasets import SCHEMA, write_files
from tests.support.forms import batch_to_json
from torchrec_io import _core
from torchrec_io._datasets.iteration import Iteration
from torchrec_io._parsing.parser import ExampleParser
from torchrec_io._parsing.record_random import DEFAULT_RANDOM
from torchrec_io._records import open_files
from torchrec_io._records.block_reader import BlockReader
from torchrec_io._records.index_cache import open_indexes
from torchrec_io._records.reader import Reader
from torchrec_io._records.record_reader import RecordReader
from torchrec_io._storage.location import Location
from torchrec_io._storage.several_sources import descriptors_of
from torchrec_io._tensors.native_run import load_run
from torchrec_io._tensors.parse import parse_block

FIXED = {"id": tio.FixedLenFeature([], "int64")}
RAW = FIXED | {"name": tio.RawFeature("int16", (4,), fixed_length=8)}
SCHEMAS = {"fixed": tio.Schema(FIXED), "raw": tio.Schema(RAW), "any": tio.Schema(SCHEMA)}


def reader_of(paths: list[str], **options: Any) -> RecordReader:
    indexes, errors = open_indexes([Location.of(path) for path in paths], "auto", "auto")
    assert not errors
    return RecordReader(indexes, **options)


def in_blocks(reader: RecordReader) -> BlockReader:
    """Return a reader of blocks of 7 records, of which it keeps few in memory."""
    return BlockReader(
        reader, lambda n: n // 7, lambda b: np.arange(7 * b, min(7 * b + 7, len(reader))), 2
    )


READERS: dict[str, Callable[[RecordReader], Reader]] = {"records": lambda r: r, "blocks": in_blocks}


def run_of(parser: ExampleParser, reader: Reader, plans: list[Any]) -> list[tio.Batch]:
    loaded = load_run(parser, reader, plans, [DEFAULT_RANDOM] * len(plans))
    return [each.batch for each in loaded]


@pytest.fixture(scope="module", params=[None, "gzip"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_files(tmp_path_factory.mktemp("data"), [40, 1, 30], request.param)


def one_by_one(parser: ExampleParser, reader: Reader, plans: list[Any]) -> list[Any]:
    """What is sound at the start, by the usual way."""
    batches = []
    for plan in plans:
        block, errors = reader.fetch(plan)
        batch, failures = parse_block(parser, block)
        if errors or failures:
            break
        batches.append(batch_to_json(batch))
    return batches


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("schema", SCHEMAS)
@given(batches=st.lists(st.lists(st.integers(0, 70), min_size=1, max_size=30), max_size=6))
def test_the_same_batches(
    files: list[str], kind: str, schema: str, batches: list[list[int]]
) -> None:
    parser, reader = ExampleParser.of(SCHEMAS[schema]), READERS[kind](reader_of(files))
    plans = [reader.plan(np.array(numbers, np.int64)) for numbers in batches]
    found = run_of(parser, reader, plans)
    assert [batch_to_json(batch) for batch in found] == one_by_one(parser, reader, plans)
    assert len(found) == len(plans)


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("schema", ["any", "fixed"])
@pytest.mark.parametrize("bad", [0, 13, 29])
@pytest.mark.parametrize("verify_crc", [True, False])
def test_up_to_the_first_with_a_damaged_record(
    tmp_path: Path, *, kind: str, schema: str, bad: int, verify_crc: bool
) -> None:
    (path,) = write_files(tmp_path, [30])
    reader = reader_of([path], verify_crc=verify_crc)
    data = bytearray(Path(path).read_bytes())
    start = int(reader.indexes[0].offsets[bad])
    data[start + 12] ^= 0xFF  # the first byte of its data
    with open(path, "r+b") as file:  # in place: the index still fits
        file.write(data)
    parser = ExampleParser.of(SCHEMAS[schema])
    blocks = READERS[kind](reader_of([path], verify_crc=verify_crc))
    plans = [blocks.plan(np.arange(at, at + 5)) for at in range(0, 30, 5)]
    found = [batch_to_json(batch) for batch in run_of(parser, blocks, plans)]
    assert found == one_by_one(parser, blocks, plans)
    assert len(found) == bad // 5


def test_up_to_the_first_that_the_schema_does_not_fit(files: list[str]) -> None:
    schemas = [
        tio.Schema({"tokens": tio.FixedLenFeature([1], "int64")}),
        tio.Schema({"id": tio.FixedLenFeature([], "bool"), "name": SCHEMA["name"]}),
        tio.Schema({"name": tio.RawFeature("uint8", (8,)), "id": SCHEMA["id"]}),
        tio.Schema({"name": tio.SerializedTensorFeature("int64")}),
    ]
    for schema in schemas:
        parser, reader = ExampleParser.of(schema), reader_of(files)
        plans = [reader.plan(np.array([1]))] + [
            reader.plan(np.arange(at, at + 5)) for at in range(1, 40, 5)
        ]
        found = [batch_to_json(batch) for batch in run_of(parser, reader, plans)]
        assert found == one_by_one(parser, reader, plans)
        assert len(found) < len(plans)


def test_not_where_a_file_became_shorter_or_is_gone(tmp_path: Path) -> None:
    parser = ExampleParser.of(SCHEMAS["fixed"])
    paths = write_files(tmp_path, [5, 5, 5])
    reader = reader_of(paths)
    plans = [reader.plan(np.arange(at, at + 5)) for at in (0, 5, 10)]
    with open(paths[1], "r+b") as file:
        file.truncate(20)
    assert len(run_of(parser, reader, plans)) == 1
    Path(paths[2]).unlink()
    reader.begin_epoch()
    with pytest.raises(FileNotFoundError):
        run_of(parser, reader, plans[2:])


@pytest.mark.parametrize("schema", ["any", "fixed"])
def test_up_to_the_first_that_cannot_be_decompressed(tmp_path: Path, schema: str) -> None:
    paths = write_files(tmp_path, [5, 5, 5], "gzip")
    reader = reader_of(paths)
    plans = [reader.plan(np.arange(at, at + 5)) for at in (0, 5, 10)]
    data = bytearray(Path(paths[1]).read_bytes())
    data[len(data) // 2] ^= 0xFF
    with open(paths[1], "r+b") as file:  # in place: the index still fits
        file.write(data)
    parser = ExampleParser.of(SCHEMAS[schema])
    found = [batch_to_json(batch) for batch in run_of(parser, reader, plans)]
    assert found == one_by_one(parser, reader, plans[:1])
    with pytest.raises(tio.TorchRecIOError):
        reader.fetch(plans[1])


def test_not_of_many_files_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "_FILES_AT_ONCE", 16)
    parser, reader = ExampleParser.of(SCHEMAS["any"]), reader_of(write_files(tmp_path, [1] * 20))
    some, others, all_ = np.arange(16), np.arange(2, 18), np.arange(20)
    assert len(run_of(parser, reader, [reader.plan(some), reader.plan(all_)])) == 1
    assert len(run_of(parser, reader, [reader.plan(some), reader.plan(others)])) == 1
    assert len(run_of(parser, reader, [reader.plan(some), reader.plan(some[3:])])) == 2
    assert run_of(parser, reader, [reader.plan(all_)]) == []


def test_batches_of_many_files_are_loaded_by_several_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "_FILES_AT_ONCE", 16)
    paths = write_files(tmp_path, [5] * 40)
    dataset = tio.TFRecordDataset(paths, FIXED, batch_size=10, shuffle=True, num_threads=2)
    expected = sorted(number for batch in dataset for number in batch["id"].tolist())
    assert expected == [*range(200)]
    monkeypatch.setattr(Iteration, "_load_alone", None)  # no batch is loaded alone
    dataset.set_epoch(0)
    assert sorted(number for batch in dataset for number in batch["id"].tolist()) == expected


def test_blocks_that_lack_a_record_are_refused(files: list[str]) -> None:
    reader = reader_of(files)
    plan, stored = reader.plan(np.array([5, 1])), reader.plan(np.arange(4))
    block = _core.FrameBlock(stored, reader.read(stored))
    buffer = np.zeros(plan.buffer_bytes, np.uint8)

    def gather(block_numbers: list[int], record_blocks: list[int]) -> int | None:
        numbers = np.array(block_numbers), np.array(record_blocks)
        return _core.gather_frames([block], numbers[0], plan, numbers[1], buffer)

    assert gather([0], [0, 0]) == 0
    assert gather([0], [7, 0]) is None
    with pytest.raises(ValueError, match="each block must have a number"):
        gather([0, 1], [0, 0])
    with pytest.raises(ValueError, match="each record must have a block"):
        gather([0], [0])


@pytest.fixture
def reads(tmp_path: Path) -> Iterator[tuple[_core.BatchReads, list[int], Any, _core.Records]]:
    """Reads of three records, their descriptors, plan and records."""
    reader = reader_of(write_files(tmp_path, [5]))
    plan = reader.plan(np.arange(3))
    [opened] = reader.open_run([plan])
    descriptors = descriptors_of(opened.files)
    assert descriptors is not None
    buffer = np.zeros(plan.buffer_bytes, np.uint8)
    records = _core.Records(buffer, plan.frame_starts + 12, plan.frame_sizes - 16)
    yield _core.BatchReads(descriptors, plan, buffer, records), descriptors, plan, records
    del opened  # the files are open until then


def test_arguments_that_do_not_match_are_refused(reads: Any) -> None:
    parser = _core.ExampleParser([])
    good, descriptors, plan, records = reads
    buffer = np.zeros(plan.buffer_bytes, np.uint8)
    for wrong in ([], [*descriptors, 0]):
        with pytest.raises(ValueError, match="one descriptor for each file"):
            _core.BatchReads(wrong, plan, buffer, records)
    with pytest.raises(ValueError, match="smaller than the plan"):
        _core.BatchReads(descriptors, plan, buffer[:-1], records)
    with pytest.raises(ValueError, match="targets and an arena"):
        _core.load_fixed_batches(parser, [good], [], [], True)
    with pytest.raises(ValueError, match="targets and an arena"):
        _core.fill_batches([], [_core.ColumnTargets(0)], [buffer])


@pytest.mark.parametrize(
    ("count", "at", "reason"),
    [
        (0, 0, "must have a writer"),
        (1, 65, "others_at must lie inside"),
        (1, -1, "others_at must lie inside"),
        (1, 0, "the rows must fit"),  # the parser has no feature
    ],
)
def test_rows_that_do_not_fit_are_refused(reads: Any, count: int, at: int, reason: str) -> None:
    row_format = _core.RowFormat(
        [_core.PackedColumn(0, 0, bytes(8), None)],
        segments_at=0,
        positions_at=0,
        continues=False,
        labels=None,
        labels_at=0,
        separator=None,
    )
    writer = _core.row_writer(_core.RowPlan(), 4, 3, np.zeros(0, np.int64))
    with pytest.raises(ValueError, match=reason):
        _core.load_rows(
            _core.ExampleParser([]),
            [reads[0]],
            [writer] * count,
            [row_format],
            [_core.ColumnTargets(0)],
            np.array([at], np.int64),
            [np.zeros(64, np.uint8)],
            True,
        )
