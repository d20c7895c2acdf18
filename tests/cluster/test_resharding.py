"""Resharding in tasks gives the files of one machine, and continues where it was."""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import torchrec_io as tio
from tests.cluster.damage import damage_silently
from tests.cluster.local_ray import LocalRay
from tests.conftest import ROOT
from tests.support.tfrecord import write_tfrecord
from torchrec_io.cluster import spills, tasks
from torchrec_io.cluster.parts import PartFolder
from torchrec_io.tools.report import Watcher

RECORDS = [bytes([i]) * (i * 37 % 91) for i in range(80)]


def contents(folder: Path, name: str) -> dict[str, bytes]:
    """Return the data files of a name, and check that there is nothing else and that they load."""
    files = sorted(path.name for path in folder.iterdir() if path.name.startswith(name))
    data = [file for file in files if not file.endswith(".tfidx")]
    assert files == sorted(data + [f"{file}.tfidx" for file in data])
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    for file in data:
        tio.RecordIndex.load(folder / f"{file}.tfidx", folder / file)
    return {file.removeprefix(name): (folder / file).read_bytes() for file in data}


@pytest.mark.usefixtures("local_ray")
@settings(max_examples=20)
@given(
    cuts=st.lists(st.integers(0, 80), max_size=2),
    flips=st.lists(st.integers(0, 79), max_size=3),
    lengths=st.booleans(),
    indexed=st.booleans(),
    compressed=st.sampled_from([None, "gzip"]),
    task_bytes=st.sampled_from([500, 3000]),
    run_bytes=st.sampled_from([100, 2000]),
    options=st.one_of(
        st.builds(dict, num_shards=st.integers(1, 9)),
        st.builds(dict, max_bytes=st.integers(1, 4000)),
        st.builds(dict, num_shards=st.just(3), compression=st.sampled_from(["gzip", "zlib"])),
    ),
)
@example([50], [20], True, True, None, 1000, 100, {"num_shards": 3})
@example([50], [20], False, False, "gzip", 1000, 100, {"max_bytes": 500})
def test_shards_are_those_of_one_machine(  # noqa: PLR0917
    tmp_path_factory: pytest.TempPathFactory,
    cuts: list[int],
    flips: list[int],
    lengths: bool,
    indexed: bool,
    compressed: Any,
    task_bytes: int,
    run_bytes: int,
    options: dict[str, Any],
) -> None:
    folder = tmp_path_factory.mktemp("files")
    ends = [0, *sorted(cuts), len(RECORDS)]
    paths = []
    for number, (begin, end) in enumerate(itertools.pairwise(ends)):
        path = folder / f"in{number}"
        write_tfrecord(path, RECORDS[begin:end], compressed)
        paths.append(path)
        offsets = tio.RecordIndex.build(path).offsets
        if indexed:
            tio.RecordIndex.build(path).save()
        if compressed is None and len(offsets):
            places = {int(offsets[flip % len(offsets)]) for flip in flips}
            damage_silently(path, [place + (2 if lengths else -2) for place in places])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "TASK_BYTES", task_bytes)
        patch.setattr(spills, "RUN_BYTES", run_bytes)
        found = tio.cluster.reshard(paths, folder / "ray", on_error="skip", **options)
    wanted = tio.tools.reshard(paths, folder / "one", on_error="skip", **options)
    assert contents(folder, "ray") == contents(folder, "one")
    assert found.counts == wanted.counts
    assert found.skipped == wanted.skipped
    assert sorted(map(str, found.errors)) == sorted(map(str, wanted.errors))
    assert found.file_bytes == wanted.file_bytes


@pytest.mark.usefixtures("local_ray")
def test_records_after_a_damaged_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tfrecord(tmp_path / "in", [bytes([i]) * 5000 for i in range(100)])
    index = tio.RecordIndex.build(path)
    index.save()
    damage_silently(path, [int(index.offsets[record]) + 2 for record in (30, 31, 50)])
    monkeypatch.setattr(tasks, "TASK_BYTES", 200_000)
    found = tio.cluster.reshard(path, tmp_path / "ray", num_shards=3, on_error="skip")
    wanted = tio.tools.reshard(path, tmp_path / "one", num_shards=3, on_error="skip")
    assert (found.records, found.skipped) == (97, 3)
    assert [str(error) for error in found.errors] == [str(error) for error in wanted.errors]
    assert contents(tmp_path, "ray") == contents(tmp_path, "one")


class Stop(Watcher):
    """Interrupt a job after some progress."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def advanced(self, size: int, records: int) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("steps", [1, 7, 12, 14])
def test_a_job_continues_where_it_was(
    tmp_path: Path, local_ray: LocalRay, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    monkeypatch.setattr(tasks, "TASK_BYTES", 1)
    paths = [write_tfrecord(tmp_path / f"in{i}", RECORDS[8 * i : 8 * i + 8]) for i in range(10)]
    job: Any = {"paths": paths, "name": tmp_path / "ray", "num_shards": 4}
    with pytest.raises(KeyboardInterrupt):
        tio.cluster.reshard(**job, watcher=Stop(steps))
    assert not list(tmp_path.glob("ray*"))
    before = len(local_ray.sent)
    local_ray.sent.clear()
    tio.cluster.reshard(**job)
    assert len(local_ray.sent) == 14 - before
    tio.tools.reshard(paths, tmp_path / "one", num_shards=4)
    assert contents(tmp_path, "ray") == contents(tmp_path, "one")


_KILLED = """
import os, sys
from tests.cluster.local_ray import LocalRay
import torchrec_io as tio
from torchrec_io.cluster import tasks
from torchrec_io._writing import output_group
from torchrec_io._writing.adopted_file import AdoptedFile
from torchrec_io._writing.output_group import OutputGroup

stand_in = LocalRay()
tasks.import_ray = lambda: stand_in
if sys.argv[1] == "adopting":
    adopt = OutputGroup.adopt
    OutputGroup.adopt = lambda *args, **options: (adopt(*args, **options), os._exit(9))
elif sys.argv[1] == "named":
    replace = output_group._replace_files
    output_group._replace_files = lambda *args: (replace(*args), os._exit(9))
else:
    rename = AdoptedFile.rename
    AdoptedFile.rename = lambda *args: (rename(*args), os._exit(9))
getattr(tio.cluster, sys.argv[3])(sys.argv[4:], sys.argv[2], num_shards=3)
"""


@pytest.mark.slow
@pytest.mark.parametrize("state", ["named", "begun", "adopting"])
@pytest.mark.parametrize("job", ["reshard", "shuffle"])
def test_a_job_that_was_killed_while_shards_got_their_names(
    tmp_path: Path, local_ray: LocalRay, monkeypatch: pytest.MonkeyPatch, job: str, state: str
) -> None:
    path = write_tfrecord(tmp_path / "in", RECORDS)
    name = tmp_path / "ray"
    arguments = [sys.executable, "-c", _KILLED, state, str(name), job, str(path)]
    assert subprocess.run(arguments, check=False, timeout=60, cwd=ROOT).returncode == 9
    run = getattr(tio.cluster, job)
    if state == "begun":
        with pytest.raises(FileNotFoundError, match="2 of 3 shards"):
            tio.TFRecordDataset(f"{name}-*")
        with pytest.raises(FileExistsError):
            run(path, name, num_shards=3)
        result = run(path, name, num_shards=3, force=True)
    else:
        with monkeypatch.context() as patch:
            patch.setattr(PartFolder, "write", None)  # nothing is written again
            result = run(path, name, num_shards=3)
        assert job == "shuffle" or local_ray.sent == []
    assert result.counts == (27, 27, 26)
    getattr(tio.tools, job)(path, tmp_path / "one", num_shards=3)
    assert contents(tmp_path, "ray") == contents(tmp_path, "one")
    with pytest.raises(FileExistsError):
        run(path, name, num_shards=3)


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("job", ["reshard", "shuffle"])
def test_finished_shards_stay_if_they_cannot_get_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    path = write_tfrecord(tmp_path / "in", RECORDS)
    run = functools.partial(getattr(tio.cluster, job), path, tmp_path / "ray", num_shards=3)
    with monkeypatch.context() as patch:
        adopt = PartFolder.adopt

        def late(folder: PartFolder, *args: Any) -> None:
            (tmp_path / "ray-00001-of-00003").write_bytes(b"of another program")
            adopt(folder, *args)

        patch.setattr(PartFolder, "adopt", late)
        with pytest.raises(FileExistsError):
            run()
    monkeypatch.setattr(PartFolder, "write", None)  # nothing is written again
    assert run(force=True).counts == (27, 27, 26)
    assert len(contents(tmp_path, "ray")) == 3


@pytest.mark.usefixtures("local_ray")
def test_changed_inputs_are_read_again(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "in", RECORDS[:3])
    with pytest.raises(KeyboardInterrupt):
        tio.cluster.reshard(path, tmp_path / "ray", num_shards=1, watcher=Stop(1))
    write_tfrecord(path, RECORDS[5:8])
    tio.cluster.reshard(path, tmp_path / "ray", num_shards=1)
    assert list(tio.TFRecordDataset(tmp_path / "ray*of*1")) == RECORDS[5:8]


def test_a_damaged_record(tmp_path: Path, local_ray: LocalRay) -> None:
    path = write_tfrecord(tmp_path / "in", RECORDS)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(tio.CorruptRecordError) as raised:
        tio.cluster.reshard(path, tmp_path / "ray", num_shards=2)
    assert (raised.value.path, raised.value.record) == (str(path), 79)
    assert not list(tmp_path.glob("ray*"))
    local_ray.sent.clear()
    result = tio.cluster.reshard(path, tmp_path / "ray", num_shards=2, on_error="skip")
    assert (result.counts, result.skipped) == ((40, 39), 1)
    assert len(local_ray.sent) == 1  # the shards; the file is not read again


@pytest.mark.usefixtures("local_ray")
def test_outputs_that_exist(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "in", RECORDS)
    tio.cluster.reshard(path, tmp_path / "ray", num_shards=5)
    with pytest.raises(FileExistsError):
        tio.cluster.reshard(path, tmp_path / "ray", num_shards=2)
    assert len(contents(tmp_path, "ray")) == 5
    tio.cluster.reshard(path, tmp_path / "ray", num_shards=2, force=True, index=False)
    assert sorted(os.listdir(tmp_path)) == ["in", "ray-00000-of-00002", "ray-00001-of-00002"]


def test_progress_of_both_passes(tmp_path: Path, local_ray: LocalRay) -> None:
    class Heard(Watcher):
        total = size = records = 0

        def started(self, total: int) -> None:
            self.total = total

        def advanced(self, size: int, records: int) -> None:
            self.size += size
            self.records += records

    path = write_tfrecord(tmp_path / "in", RECORDS)
    heard = Heard()
    tio.cluster.reshard(path, tmp_path / "ray", num_shards=3, watcher=heard)
    assert heard.total == heard.size == path.stat().st_size
    assert heard.records == 80
    assert max(local_ray.sent) < 2000


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of num_shards and max_bytes"),
        ({"num_shards": 2, "max_bytes": 5}, "exactly one of num_shards and max_bytes"),
        ({"num_shards": 0}, "num_shards must be"),
        ({"num_shards": 100_000}, "at most 99,999"),
        ({"max_bytes": 0}, "max_bytes must be"),
        ({"max_bytes": 9, "compression": "gzip"}, "max_bytes cannot be used with compression"),
        ({"num_shards": 1, "compression": "xz"}, "compression must be"),
        ({"num_shards": 1, "on_error": "no"}, "on_error must be"),
        ({"num_shards": 1, "name": "."}, "is a folder"),
    ],
)
def test_invalid_arguments(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    path = write_tfrecord(tmp_path / "in", RECORDS[:1])
    name = options.pop("name", tmp_path / "ray")
    with pytest.raises(ValueError, match=message):
        tio.cluster.reshard(path, name, **options)
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("job", ["reshard", "shuffle"])
def test_zstandard(tmp_path: Path, job: str) -> None:
    path = write_tfrecord(tmp_path / "in", RECORDS)
    options: dict[str, Any] = {"num_shards": 2, "compression": "zstd"}
    getattr(tio.cluster, job)(path, tmp_path / "ray", **options)
    getattr(tio.tools, job)(path, tmp_path / "one", **options)
    assert contents(tmp_path, "ray") == contents(tmp_path, "one")
