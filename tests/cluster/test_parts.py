"""Parts of a job: which are found again, and when they are removed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from torchrec_io._storage.location import Location
from torchrec_io.cluster.part_records import TaskErrors
from torchrec_io.cluster.parts import PartFolder

RECORDS = [b"a", b"bc", b""]
ARGUMENTS = ["job", "/data/a", "/data/b"]


def stop(path: Path, arguments: list[str] = ARGUMENTS) -> PartFolder:
    """Write a part in a job that is interrupted."""
    with (
        pytest.raises(KeyboardInterrupt),
        PartFolder.of_job(Location.of(path), arguments, None, index=True) as folder,
    ):
        error = tio.CorruptRecordError("damaged", path="/data/a", record=3, offset=9)
        folder.write(4, RECORDS, key="work", errors=TaskErrors([error]), facts={"cuts": [1, 2]})
        raise KeyboardInterrupt
    return folder


def test_a_part_is_found_again(tmp_path: Path) -> None:
    name = tmp_path / "out"
    stopped = stop(name)
    assert os.path.basename(stopped.location).startswith(".out-parts-")
    with PartFolder.of_job(Location.of(name), ARGUMENTS, None, index=True) as folder:
        part = folder.find(4, "work")
        assert part is not None
        assert (part.number, part.records, part.facts) == (4, 3, {"cuts": [1, 2]})
        [error] = part.errors
        assert isinstance(error, tio.CorruptRecordError)
        assert str(error) == "/data/a: damaged (record 3, offset 9)"
        assert folder.find(4, "other work") is None
        assert folder.find(5, "work") is None
        assert folder.commit(Location.of(name), [part], force=False) == [
            Location.of(f"{name}-00000-of-00001")
        ]
    assert list(tio.TFRecordDataset(f"{name}-*")) == RECORDS
    assert sorted(os.listdir(tmp_path)) == [
        "out-00000-of-00001", "out-00000-of-00001.tfidx"]  # fmt: skip


def test_other_arguments_have_another_folder(tmp_path: Path) -> None:
    paths = {stop(tmp_path / "a").location, stop(tmp_path / "a", [*ARGUMENTS, "x"]).location,
             stop(tmp_path / "b").location}  # fmt: skip
    assert len(paths) == 3


@pytest.mark.parametrize("damage", ["data", "record", "no data", "key type"])
def test_a_damaged_part_is_not_found(tmp_path: Path, damage: str) -> None:
    folder = stop(tmp_path / "out")
    path = Path(folder.file_of(4))
    record = Path(f"{path}.json")
    if damage == "data":
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    elif damage == "record":
        record.write_bytes(record.read_bytes()[:-5])
    elif damage == "no data":
        path.unlink()
    else:
        record.write_bytes(record.read_bytes().replace(b'"CorruptRecordError"', b'"Any"'))
    assert folder.find(4, "work") is None
    assert folder.write(4, RECORDS, key="work") == folder.find(4, "work")


def test_a_part_that_is_written_again_is_not_found_by_its_old_key(tmp_path: Path) -> None:
    folder = stop(tmp_path / "out")

    def failing() -> Iterator[bytes]:
        yield b"a"
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        folder.write(4, failing(), key="new work")
    assert folder.find(4, "work") is None


def test_a_folder_without_parts_is_removed_after_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(tio.DecodeError),
        PartFolder.of_job(Location.of(tmp_path / "out"), ARGUMENTS, None, index=True) as folder,
    ):
        folder.stage("first")
        raise tio.DecodeError("no")
    assert os.listdir(tmp_path) == []


def test_parts_of_a_stage(tmp_path: Path) -> None:
    with PartFolder.of_job(Location.of(tmp_path / "out"), ARGUMENTS, "gzip", index=True) as folder:
        stage = folder.stage("first")
        part = stage.write(0, RECORDS, key="k")
        assert part.records == len(RECORDS)
        assert stage.location == folder.location.child("first")
        assert sorted(os.listdir(stage.location)) == ["000000000", "000000000.json"]
    assert os.listdir(tmp_path) == []


def test_the_same_job_runs_once_at_a_time(tmp_path: Path) -> None:
    name = Location.of(tmp_path / "new" / "out")
    with PartFolder.of_job(name, ARGUMENTS, None, index=True) as folder:
        part = folder.write(0, RECORDS, key="k")
        with (
            pytest.raises(BlockingIOError, match="another process runs the same job") as raised,
            PartFolder.of_job(name, ARGUMENTS, None, index=True),
        ):
            pass
        assert raised.value.filename == folder.location.name
        assert folder.find(0, "k") == part
        with PartFolder.of_job(name, [*ARGUMENTS, "x"], None, index=True):
            pass  # another job
    assert os.listdir(tmp_path / "new") == []


def test_a_job_runs_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with PartFolder.of_job(Location.of(tmp_path / "out"), ARGUMENTS, None, index=True) as folder:
        folder.write(0, RECORDS, key="k")
    assert os.listdir(tmp_path) == []
