"""A schema inferred in tasks is that of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

import torchrec_io as tio
from tests.cluster.damage import damage_silently
from tests.cluster.local_ray import LocalRay
from tests.support import every_kind
from tests.support.inferring import example_of, sequence_of
from tests.support.tfrecord import write_tfrecord
from torchrec_io.cluster import tasks


def same(found: tio.Schema, wanted: tio.Schema) -> bool:
    return (found, found.findings, found.inspected) == (wanted, wanted.findings, wanted.inspected)


def test_the_schema_is_that_of_one_process(
    tmp_path: Path, local_ray: LocalRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [
        write_tfrecord(tmp_path / str(n), [every_kind.record(40 * n + i) for i in range(40)])
        for n in range(2)
    ]
    write_tfrecord(tmp_path / "2.gz", [every_kind.record(900)], "gzip")
    tio.RecordIndex.build(paths[0]).save()
    monkeypatch.setattr(tasks, "TASK_BYTES", 1)
    found = tio.cluster.infer(tmp_path / "*")
    assert same(found, tio.Schema.infer(tmp_path / "*", None))
    assert len(local_ray.sent) == 3


@pytest.mark.usefixtures("local_ray")
def test_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_tfrecord(
        tmp_path / "a", [example_of(x=[i], y=[b"y" * 1000] * (i + 1)) for i in range(60)]
    )
    index = tio.RecordIndex.build(path)
    index.save()
    # A length, and data.
    damage_silently(path, [int(index.offsets[30]) + 2, int(index.offsets[40]) - 1])
    with pytest.raises(tio.CorruptRecordError) as raised:
        tio.cluster.infer(path)
    assert (raised.value.record, raised.value.offset) == (30, int(index.offsets[30]))
    found = tio.cluster.infer(path, on_error="skip")
    assert found.inspected is not None
    assert found.inspected.records == 58
    message = "skipped 2 records, damaged or neither Examples nor SequenceExamples"
    assert caplog.messages == [message]
    tio.Schema.infer(path, None, on_error="skip")
    assert caplog.messages == [message, message]


@pytest.mark.usefixtures("local_ray")
def test_records_that_are_not_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "TASK_BYTES", 1)
    paths = [
        write_tfrecord(tmp_path / "a", [example_of(x=[1])]),
        write_tfrecord(tmp_path / "b", [sequence_of({"x": ("int64", [2])}, {})]),
        write_tfrecord(tmp_path / "c", [b"\xff"]),
    ]
    with pytest.raises(tio.DecodeError, match="the record is neither a") as raised:
        tio.cluster.infer(paths)
    assert (raised.value.path, raised.value.record) == (str(paths[2]), 0)
    found = tio.cluster.infer(paths, on_error="skip")
    assert same(found, tio.Schema.infer(paths, None, on_error="skip"))
    with pytest.raises(ValueError, match="on_error must be"):
        tio.cluster.infer(paths, on_error="no")  # type: ignore[arg-type]
