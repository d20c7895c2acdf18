"""Tasks: their results in order, errors, and the indexes that they write."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import torchrec_io as tio
from tests.cluster.damage import damage_silently
from tests.cluster.local_ray import LocalRay
from tests.support.tfrecord import write_tfrecord
from torchrec_io._records.opening import open_indexes
from torchrec_io._storage.location import Location
from torchrec_io.cluster import tasks
from torchrec_io.cluster.shared_indexes import open_shared_indexes


def fail_at_two(item: int) -> int:
    if item >= 2:
        raise tio.CorruptRecordError("damaged", record=item)
    return item


def test_the_first_error_is_raised_and_other_tasks_are_cancelled(
    local_ray: LocalRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "TASK_BYTES", 1)
    results = tasks.run_tasks(fail_at_two, range(50), [1] * 50)
    with pytest.raises(tio.CorruptRecordError):
        list(results)
    assert local_ray.cancelled > 0


waits: list[float] = []


def fail_twice(code: int) -> str:
    if len(waits) < 2:
        raise OSError(code, os.strerror(code), "x")
    return "done"


@pytest.mark.usefixtures("local_ray")
def test_a_call_is_tried_again_if_a_file_server_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torchrec_io.cluster.tasks.time.sleep", waits.append)
    waits.clear()
    assert list(tasks.run_tasks(fail_twice, [errno.ESTALE], [1])) == [("done", 1)]
    assert len(waits) == 2
    waits.clear()
    with pytest.raises(FileNotFoundError):
        list(tasks.run_tasks(fail_twice, [errno.ENOENT], [1]))
    assert waits == []


@pytest.mark.parametrize("damaged", [False, True])
def test_files_without_an_index_are_indexed_by_tasks(
    tmp_path: Path, local_ray: LocalRay, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    monkeypatch.setattr(tasks, "TASK_BYTES", 1)
    paths = [str(write_tfrecord(tmp_path / f"{i}", [b"r" * 30] * i)) for i in range(1, 4)]
    tio.RecordIndex.build(paths[0]).save()
    if damaged:
        damage_silently(Path(paths[2]), [46 + 2])
    found, errors = open_shared_indexes([Location.of(path) for path in paths])
    assert len(local_ray.sent) == 2
    wanted, wanted_errors = open_indexes([Location.of(path) for path in paths], "auto", "auto")
    assert [index.offsets.tolist() for index in found] == [i.offsets.tolist() for i in wanted]
    assert list(map(str, errors)) == list(map(str, wanted_errors))
    assert len(errors) == damaged
    local_ray.sent.clear()
    open_shared_indexes([Location.of(path) for path in paths])
    assert len(local_ray.sent) == damaged  # the others are in the cache


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_indexes_are_those_of_one_machine(tmp_path: Path, local_ray: LocalRay) -> None:
    records = [b"r" * i for i in range(50)]
    paths = [write_tfrecord(tmp_path / "a", records), tmp_path / "b.gz"]
    write_tfrecord(paths[1], records, "gzip")
    found = tio.cluster.index(tmp_path / "*")
    assert [(result.path, result.state, result.records) for result in found] == [
        (str(path), "indexed", 50) for path in paths
    ]
    assert [result.file_bytes for result in found] == [path.stat().st_size for path in paths]
    assert len(local_ray.sent) == 1
    for path in paths:
        content = Path(f"{path}.tfidx").read_bytes()
        tio.RecordIndex.build(path).save()
        assert Path(f"{path}.tfidx").read_bytes() == content
    again = tio.cluster.index(paths)
    assert [result.state for result in again] == ["up to date"] * 2
    assert [result.state for result in tio.cluster.index(paths, force=True)] == ["indexed"] * 2


@pytest.mark.usefixtures("local_ray")
def test_a_damaged_file_does_not_keep_others_from_being_indexed(tmp_path: Path) -> None:
    bad = tmp_path / "a"
    bad.write_bytes(b"damage" * 9)
    good = write_tfrecord(tmp_path / "b", [b"x"])
    with pytest.raises(tio.CorruptRecordError) as raised:
        tio.cluster.index([bad, good])
    assert raised.value.path == str(bad)
    assert names(tmp_path) == ["a", "b", "b.tfidx"]
    [failed, done] = tio.cluster.index([bad, good], on_error="skip")
    assert (failed.state, done.state) == ("failed", "up to date")
    assert isinstance(failed.error, tio.CorruptRecordError)


@pytest.mark.usefixtures("local_ray")
def test_relative_paths_are_those_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tfrecord(tmp_path / "a", [b"x"])
    monkeypatch.chdir(tmp_path)
    assert [result.path for result in tio.cluster.index("a")] == [str(tmp_path / "a")]
    assert [report.path for report in tio.cluster.verify("a")] == [str(tmp_path / "a")]


def test_an_address_without_a_cluster_is_an_error() -> None:
    with pytest.raises(ConnectionError, match=r"there is no Ray cluster at 127\.0\.0\.1:1 "):
        tasks.connect("127.0.0.1:1")
