"""The read tasks that Ray Data gets: counts, sizes, damage."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
from ray import cloudpickle

import torchrec_io as tio
from tests.cluster.rows import rows_of, source_of, tables_of
from tests.support.datasets import SCHEMA, record, write_files
from tests.support.examples import example_of
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io._records.index_cache import cache_path
from torchrec_io._storage.location import Location
from torchrec_io.cluster.shared_indexes import open_shared_indexes


def damage(path: Path, number: int) -> None:
    """Change a byte of the data of a record."""
    offset = int(tio.RecordIndex.build(path).offsets[number])
    content = bytearray(path.read_bytes())
    content[offset + 14] ^= 1
    path.write_bytes(content)


def test_tasks_know_their_rows_and_files(tmp_path: Path) -> None:
    paths = write_files(tmp_path, [50, 3, 47])
    tasks = source_of(paths, SCHEMA).get_read_tasks(4)
    assert len(tasks) == 4
    for task in tasks:
        assert task.metadata.num_rows == sum(table.num_rows for table in task())
    assert tasks[0].metadata.input_files == (paths[0],)
    assert tasks[-1].metadata.input_files == (paths[2],)
    assert sum(task.metadata.num_rows for task in tasks) == 100


def test_tasks_are_small_and_need_no_index(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "a", [record(i) for i in range(2000)])
    [task, _] = source_of([str(path)], SCHEMA).get_read_tasks(2)
    sent = cloudpickle.dumps(task)  # type: ignore[no-untyped-call]
    assert len(sent) < 5000
    assert sum(table.num_rows for table in pickle.loads(sent)()) == task.metadata.num_rows


def test_the_row_limit_of_tasks(tmp_path: Path) -> None:
    paths = write_files(tmp_path, [50])
    tasks = source_of(paths, SCHEMA).get_read_tasks(1, per_task_row_limit=7)
    assert sum(table.num_rows for task in tasks for table in task()) == 7


@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_a_damaged_record_raises_with_its_place(tmp_path: Path, schema: Any) -> None:
    [name] = write_files(tmp_path, [30])
    damage(Path(name), 17)
    source = source_of([name], schema)
    with pytest.raises(tio.CorruptRecordError) as raised:
        tables_of(source, 3)
    assert (raised.value.path, raised.value.record) == (name, 17)
    assert len(rows_of(tables_of(source_of([name], None, verify_crc=False)))) == 30


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("blocks", [1, 3])
def test_files_without_right_checksums(tmp_path: Path, blocks: int) -> None:
    path = tmp_path / "a"
    frames = [frame(record(i)) for i in range(30)]
    path.write_bytes(b"".join(each[:8] + bytes(4) + each[12:-4] + bytes(4) for each in frames))
    source = source_of([str(path)], SCHEMA, verify_crc=False)
    assert [row["id"] for row in rows_of(tables_of(source, blocks))] == [*range(30)]
    for verify_crc in (True, False):
        [index], errors = open_shared_indexes([Location.of(path)], verify_crc=verify_crc)
        assert (len(index), len(errors)) == ((0, 1) if verify_crc else (30, 0))
    assert not cache_path(path).exists()


def test_bad_records_are_skipped_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    records = [example_of(x=[i] * (1 + (i % 5 == 0))) for i in range(20)]
    path = write_tfrecord(tmp_path / "a", records)
    damage(path, 7)
    schema = {"x": tio.FixedLenFeature([], "int64")}
    source = source_of([str(path)], schema, on_error="skip")
    tasks = source.get_read_tasks(1)
    assert [task.metadata.num_rows for task in tasks] == [None]
    with caplog.at_level(logging.WARNING, "torchrec_io"):
        rows = rows_of(tables_of(source))
    assert [row["x"] for row in rows] == [i for i in range(20) if i % 5 and i != 7]
    [message] = caplog.messages
    assert message.startswith(f"skipped 5 errors, the first one: {path}:")


def test_rows_out_of_order_are_errors(tmp_path: Path) -> None:
    """Arrow's lists cannot overlap, so rows are checked whatever the spec says."""
    feature = tio.RaggedFeature("int64", "v", [tio.RaggedFeature.RowSplits("s")], validate=False)
    path = write_tfrecord(tmp_path / "a", [example_of(v=[1, 2, 3], s=[0, 2, 1, 3])])
    with pytest.raises(tio.DecodeError):
        tables_of(source_of([str(path)], {"x": feature}))
