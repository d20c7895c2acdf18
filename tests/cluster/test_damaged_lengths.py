"""After a damaged length, jobs find the other records by the index, as one machine does."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.cluster.damage import damage_silently
from tests.cluster.rows import rows_of, source_of, tables_of
from tests.cluster.test_resharding import contents
from tests.support.examples import example_of
from tests.support.tfrecord import write_tfrecord
from torchrec_io.cluster import tasks
from torchrec_io.cluster.division import DividedRecords

DAMAGED = (30, 31, 50)
SCHEMA = {"x": tio.FixedLenFeature([], "int64")}


@pytest.fixture(params=[None, "gzip"])
def damaged(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Write a file with an index, which has damaged lengths, or a damaged part of its stream."""
    noise = random.Random(0)
    records = [example_of(x=[i], y=[noise.randbytes(2500).hex().encode()]) for i in range(100)]
    path = write_tfrecord(tmp_path / "in", records, request.param)
    index = tio.RecordIndex.build(path, seek_point_bytes=50_000)
    index.save()
    if request.param is None:
        places = [int(index.offsets[record]) + 2 for record in DAMAGED]
    else:
        places = [path.stat().st_size // 2 + byte for byte in range(3000)]
    damage_silently(path, places)
    return path


def _place(error: tio.TorchRecIOError) -> tuple[int | None, int | None]:
    return error.record, error.offset


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("task_bytes", [1 << 17, 1 << 28])
@pytest.mark.parametrize("job", ["reshard", "shuffle"])
def test_shards(
    damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task_bytes: int, job: str
) -> None:
    monkeypatch.setattr(tasks, "TASK_BYTES", task_bytes)
    options: dict[str, Any] = {"task_bytes": task_bytes} if job == "shuffle" else {}
    run = getattr(tio.cluster, job)
    found = run(damaged, tmp_path / "ray", num_shards=3, on_error="skip", **options)
    wanted = getattr(tio.tools, job)(damaged, tmp_path / "one", num_shards=3, on_error="skip")
    assert 0 < wanted.skipped < 30
    assert (found.counts, found.skipped) == (wanted.counts, wanted.skipped)
    assert sorted(map(_place, found.errors)) == sorted(map(_place, wanted.errors))
    assert contents(tmp_path, "ray") == contents(tmp_path, "one")


@pytest.mark.parametrize("blocks", [1, 7])
def test_rows(damaged: Path, blocks: int) -> None:
    source = source_of([str(damaged)], SCHEMA, on_error="skip", with_key=True)
    rows = rows_of(tables_of(source, blocks))
    samples = tio.TFRecordDataset(damaged, SCHEMA, with_key=True, on_error="skip")
    wanted = [(key, int(sample["x"])) for key, sample in samples]
    assert 70 < len(wanted) < 100
    assert [(row["__key__"], row["x"]) for row in rows] == wanted


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("task_bytes", [1 << 17, 1 << 28])
def test_a_schema(damaged: Path, monkeypatch: pytest.MonkeyPatch, task_bytes: int) -> None:
    monkeypatch.setattr(tasks, "TASK_BYTES", task_bytes)
    found = tio.cluster.infer(damaged, on_error="skip")
    wanted = tio.Schema.infer(damaged, None, on_error="skip")
    assert (found, found.findings, found.inspected) == (wanted, wanted.findings, wanted.inspected)
    with pytest.raises(tio.CorruptRecordError):
        tio.cluster.infer(damaged)


def test_the_loss_without_an_index_on_the_machine(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "in", [example_of(x=[i], y=[b"y" * 4000]) for i in range(90)])
    index = tio.RecordIndex.build(path)  # only the machine that starts the job has it
    damage_silently(path, [int(index.offsets[40]) + 2])
    [[piece]] = DividedRecords([index]).divide(1)
    *blocks, last = piece.blocks()
    assert sum(len(found.block) for found in blocks) == 40
    [error] = last.errors
    assert isinstance(error, tio.CorruptRecordError)
    assert (error.record, error.offset) == (40, int(index.offsets[40]))
    assert "; 50 records from here on cannot be found" in error.reason


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("job", ["reshard", "shuffle"])
def test_many_errors_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str) -> None:
    monkeypatch.setattr("torchrec_io.cluster.part_records.MOST_KEPT_ERRORS", 5)
    path = write_tfrecord(tmp_path / "in", [b"x"] * 40)
    damage_silently(path, [17 * record + 12 for record in range(30)])
    found = getattr(tio.cluster, job)(path, tmp_path / "ray", num_shards=2, on_error="skip")
    assert (found.records, found.skipped, len(found.errors)) == (10, 30, 5)
    assert [error.record for error in found.errors] == [0, 1, 2, 3, 4]
