"""After a damaged length, jobs find the other records by the index, as one machine does."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import torchrec_io as tio
from tests.cluster.damage import damage_silently
from tests.cluster.rows import rows_of, source_of, tables_of
from tests.support.examples import example_of
from tests.support.tfrecord import write_tfrecord
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


@pytest.mark.usefixtures("local_ray")
def test_shards(damaged: Path, tmp_path: Path) -> None:
    found = tio.cluster.reshard(damaged, tmp_path / "ray", num_shards=3, on_error="skip")
    wanted = tio.tools.merge(damaged, tmp_path / "one", on_error="skip")
    assert 0 < wanted.skipped < 30
    assert (found.records, found.skipped) == (wanted.records, wanted.skipped)
    places = [[(e.record, e.offset) for e in result.errors] for result in (found, wanted)]
    assert sorted(places[0]) == sorted(places[1])
    assert list(tio.TFRecordDataset(found.paths)) == list(tio.TFRecordDataset(wanted.paths))


@pytest.mark.parametrize("blocks", [1, 7])
def test_rows(damaged: Path, blocks: int) -> None:
    source = source_of([str(damaged)], SCHEMA, on_error="skip", with_key=True)
    rows = rows_of(tables_of(source, blocks))
    samples = tio.TFRecordDataset(damaged, SCHEMA, with_key=True, on_error="skip")
    wanted = [(key, int(sample["x"])) for key, sample in samples]
    assert 70 < len(wanted) < 100
    assert [(row["__key__"], row["x"]) for row in rows] == wanted


@pytest.mark.usefixtures("local_ray")
def test_a_schema(damaged: Path) -> None:
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
