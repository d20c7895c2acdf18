"""A cluster of two Ray nodes on this machine."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import cloudpickle
from ray.cluster_utils import Cluster
from ray.data.expressions import col
from typer.testing import CliRunner

import torchrec_io as tio
from tests.cluster.rows import assert_same
from tests.cluster.stored import assert_same_as_local, names
from tests.cluster.test_resharding import contents
from tests.support import every_kind
from tests.support.datasets import SCHEMA, record, write_files
from tests.support.pages import run_page
from tests.support.stores import S3Server
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io.cli.commands import app
from torchrec_io.cluster import tasks
from torchrec_io.tools.report import Watcher

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, s3: S3Server) -> Iterator[Cluster]:
    """Start two nodes of one CPU each, which can write to a store."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3.environment().items():
            patch.setenv(name, value)
        home = tmp_path_factory.mktemp("ray")
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(home / "token"))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        options: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100 << 20}
        started = Cluster(
            initialize_head=True, head_node_args={**options, "include_dashboard": False}
        )
        try:
            started.add_node(**options)
            started.wait_for_nodes()
            ray.init(address=started.address, log_to_driver=False)
            yield started
        finally:
            ray.shutdown()
            started.shutdown()  # type: ignore[no-untyped-call]


@pytest.mark.usefixtures("cluster")
def test_rows_of_a_cluster_are_samples(tmp_path: Path) -> None:
    paths = [
        write_tfrecord(tmp_path / str(n), [every_kind.record(20 * n + i) for i in range(20)])
        for n in range(3)
    ]
    dataset = tio.cluster.read_tfrecords(paths, every_kind.SCHEMA, override_num_blocks=5)
    assert dataset.count() == 60
    rows = sorted(dataset.take_all(), key=lambda row: row["id"])
    samples = list(tio.TFRecordDataset(paths, every_kind.SCHEMA))
    schema = dataset.schema().base_schema
    for row, sample in zip(rows, samples, strict=True):
        for name, value in row.items():
            assert_same(value, sample[name], schema.field(name).type)


@pytest.mark.usefixtures("cluster")
def test_an_error_of_a_task_has_its_place(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "a", [b"no example"])
    with pytest.raises(tio.DecodeError, match="record 0, offset 0"):
        tio.cluster.read_tfrecords(path, SCHEMA).take_all()


@pytest.mark.usefixtures("cluster")
def test_files_without_right_checksums(tmp_path: Path) -> None:
    path = tmp_path / "a"
    frames = [frame(record(i)) for i in range(30)]
    path.write_bytes(b"".join(each[:8] + bytes(4) + each[12:-4] + bytes(4) for each in frames))
    rows = tio.cluster.read_tfrecords(path, SCHEMA, verify_crc=False, override_num_blocks=2)
    assert sorted(row["id"] for row in rows.take_all()) == [*range(30)]
    with pytest.raises(tio.CorruptRecordError, match="length does not match its checksum"):
        tio.cluster.read_tfrecords(path, SCHEMA)


@pytest.mark.usefixtures("cluster")
def test_slices_and_selected_columns(tmp_path: Path) -> None:
    paths = write_files(tmp_path, [10, 20])
    dataset = tio.cluster.read_tfrecords(paths, SCHEMA, split="[20%:50%]", with_key=True)
    assert dataset.columns() == ["__key__", *SCHEMA]
    assert dataset.select_columns(["id"]).sum("id") == sum(range(6, 15))


@pytest.mark.usefixtures("cluster")
def test_rows_are_written(tmp_path: Path) -> None:
    paths = write_files(tmp_path, [10, 20])
    rows = tio.cluster.read_tfrecords(paths, SCHEMA, override_num_blocks=4)
    name = str(tmp_path / "out")
    result = tio.cluster.write_tfrecords(rows, name, num_shards=3)
    assert list(result.paths) == [tio.shard_path(name, i, 3) for i in range(3)]
    assert (sum(result.counts), result.records) == (30, 30)
    again = tio.TFRecordDataset(result.paths, SCHEMA)
    assert sorted(int(sample["id"]) for sample in again) == list(range(30))
    assert all(Path(f"{path}.tfidx").exists() for path in result.paths)
    with pytest.raises(FileExistsError):
        tio.cluster.write_tfrecords(rows, name)
    none = rows.filter(expr=col("id") > 99)
    assert tio.cluster.write_tfrecords(none, name, force=True).counts == (0,)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.usefixtures("cluster")
def test_rows_are_written_to_a_store(
    tmp_path: Path, in_store: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tio.cluster.read_tfrecords(write_files(tmp_path, [10]), SCHEMA)
    name = f"{in_store}/out"
    with monkeypatch.context() as patch:
        patch.delenv("AWS_ENDPOINT_URL")
        options = {"endpoint": s3.endpoint}
        result = tio.cluster.write_tfrecords(
            rows, name, num_shards=2, compression="gzip", storage_options=options
        )
    assert names(in_store) == {
        f"out-0000{shard}-of-00002{end}" for shard in range(2) for end in ("", ".tfidx")
    }
    again = tio.TFRecordDataset(result.paths, SCHEMA)
    assert sorted(int(sample["id"]) for sample in again) == list(range(10))
    with pytest.raises(FileExistsError):
        tio.cluster.write_tfrecords(rows, f"{in_store}/out")
    bad = ray.data.from_items([{"x": [1, 2]}, {"x": [3, None]}], override_num_blocks=2)
    with pytest.raises(tio.ConversionError, match="null in a list"):
        tio.cluster.write_tfrecords(bad, f"{in_store}/out", force=True)
    assert len(names(in_store)) == 4


@pytest.mark.usefixtures("cluster")
def test_blocks_of_different_types_are_written_alike(tmp_path: Path) -> None:
    rows = ray.data.from_items([{"x": 1}, {"x": 0.5}], override_num_blocks=2)
    result = tio.cluster.write_tfrecords(rows, tmp_path / "out")
    assert len(result.paths) == 2
    schema = {"x": tio.FixedLenFeature([], "float32")}
    assert sorted(float(row["x"]) for row in tio.TFRecordDataset(result.paths, schema)) == [0.5, 1]
    rows = ray.data.from_items([{"x": [1]}, {"x": [[1]]}], override_num_blocks=2)
    with pytest.raises(tio.ConversionError, match="the blocks of the dataset differ"):
        tio.cluster.write_tfrecords(rows, tmp_path / "other")


@pytest.mark.usefixtures("cluster")
def test_nothing_is_written_if_a_task_fails(tmp_path: Path) -> None:
    rows = ray.data.from_items([{"x": [1, 2]}, {"x": [3, None]}], override_num_blocks=2)
    with pytest.raises(tio.ConversionError, match="null in a list"):
        tio.cluster.write_tfrecords(rows, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


class LostTask:
    """A task that does not end before its process is killed, and is then run again.

    It is the first one that starts, or the first one on a node. Files in a folder tell the
    processes about it.
    """

    def __init__(self, folder: Path, node: str | None = None) -> None:
        self._log, self._chosen = folder / "log", folder / "chosen"
        self._node = node

    def run_tasks(self, function: Any, items: Any, sizes: Any) -> Any:
        """Run tasks of which one gets lost."""
        return run_tasks(functools.partial(self._noted, function=function), items, sizes)

    def kill_by(self, kill: Callable[[int], object]) -> threading.Thread:
        """Call a function with the number of the process, in a thread, when the task runs."""

        def wait() -> None:
            while not (self._chosen.exists() and self._chosen.read_text().endswith("\n")):
                time.sleep(0.01)
            kill(int(self._chosen.read_text().split()[1]))

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        return thread

    @property
    def runs(self) -> int:
        """Number of times that the task was started."""
        name = self._chosen.read_text().split()[0]
        return sum(line.split()[0] == name for line in self._log.read_text().splitlines())

    def _noted(self, item: Any, *, function: Any) -> Any:
        note = f"{zlib.crc32(cloudpickle.dumps(item))} {os.getpid()}\n"  # type: ignore[no-untyped-call]
        with self._log.open("a") as file:
            file.write(note)
        if self._node in (None, ray.get_runtime_context().get_node_id()):
            with contextlib.suppress(FileExistsError), self._chosen.open("x") as chosen:
                chosen.write(note)
                chosen.flush()
                time.sleep(600)
        return function(item)


run_tasks = tasks.run_tasks


def test_work_is_finished_when_a_node_is_lost(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "TASK_BYTES", 1)
    (tmp_path / "data").mkdir()
    paths = write_files(tmp_path / "data", [200] * 30)
    node = cluster.add_node(num_cpus=2, object_store_memory=100 << 20)
    cluster.wait_for_nodes()
    lost = LostTask(tmp_path, node.node_id)
    killer = lost.kill_by(lambda _: cluster.remove_node(node, allow_graceful=False))
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "run_tasks", lost.run_tasks)
        found = tio.cluster.reshard(paths, tmp_path / "data" / "ray", num_shards=7)
    killer.join()
    assert lost.runs == 2
    wanted = tio.tools.reshard(paths, tmp_path / "data" / "one", num_shards=7)
    assert found.counts == wanted.counts
    assert contents(tmp_path / "data", "ray") == contents(tmp_path / "data", "one")
    results = tio.cluster.index(paths)
    assert [(result.path, result.records) for result in results] == [(p, 200) for p in paths]
    reports = tio.cluster.verify(paths)
    assert all(report.ok and report.records == 200 for report in reports)
    assert {result.state for result in tio.cluster.index(paths)} == {"up to date"}


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("job", ["shuffle", "from_jsonl"])
def test_work_is_finished_when_a_worker_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    monkeypatch.setattr(tasks, "TASK_BYTES", 1)
    (tmp_path / "data").mkdir()
    paths = write_files(tmp_path / "data", [50] * 6)
    if job == "from_jsonl":
        for path in paths:
            Path(path).write_text("".join(f'{{"x": {x}}}\n' for x in range(30)))
    lost = LostTask(tmp_path)
    killer = lost.kill_by(lambda process: os.kill(process, signal.SIGKILL))
    options: Any = {"num_shards": 3}
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "run_tasks", lost.run_tasks)
        getattr(tio.cluster, job)(paths, tmp_path / "data" / "ray", **options)
    killer.join()
    assert lost.runs == 2
    room = tio.tools if job == "shuffle" else tio.convert
    getattr(room, job)(paths, tmp_path / "data" / "one", **options)
    assert contents(tmp_path / "data", "ray") == contents(tmp_path / "data", "one")


def test_a_shuffle_to_a_store_is_finished_when_a_node_is_lost(
    cluster: Cluster, tmp_path: Path, in_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "TASK_BYTES", 1)
    paths = write_files(tmp_path, [90] * 4)
    lost = cluster.add_node(num_cpus=2, object_store_memory=100 << 20)
    cluster.wait_for_nodes()

    class KillNode(Watcher):
        calls = 0

        def advanced(self, size: int, records: int) -> None:
            self.calls += 1
            if self.calls == 3:
                cluster.remove_node(lost, allow_graceful=False)

    tio.cluster.shuffle(
        paths, f"{in_store}/x", num_shards=5, seed=4, task_bytes=2000, watcher=KillNode()
    )
    tio.tools.shuffle(paths, tmp_path / "x", num_shards=5, seed=4)
    assert_same_as_local(in_store, tmp_path)


_DRIVER = """
import os, sys
import ray
import torchrec_io as tio
from torchrec_io.cluster import tasks
from torchrec_io.tools.report import Watcher

class Kill(Watcher):
    left = int(sys.argv[1])
    def advanced(self, size, records):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), 9)

tasks.TASK_BYTES = 1
ray.init(sys.argv[2], log_to_driver=False)
tio.cluster.reshard(sys.argv[4:], sys.argv[3], num_shards=3, watcher=Kill())
"""


def test_a_job_whose_driver_was_killed_continues(
    cluster: Cluster, tmp_path: Path, in_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_files(tmp_path, [50] * 8)
    name = f"{in_store}/x"
    arguments = [sys.executable, "-c", _DRIVER, "6", cluster.address, name, *paths]
    assert subprocess.run(arguments, check=False, timeout=60).returncode == -9
    left = names(in_store)
    assert all(each.startswith(".x-parts-") for each in left)
    finished = sum("/spills/" in each and each.endswith(".json") for each in left)
    assert finished >= 6
    monkeypatch.setattr(tasks, "TASK_BYTES", 1)
    seen = []
    run_tasks = tasks.run_tasks

    def counted(function: Any, items: Any, sizes: Any) -> Any:
        seen.append(len(items))
        return run_tasks(function, items, sizes)

    monkeypatch.setattr(tasks, "run_tasks", counted)
    tio.cluster.reshard(paths, name, num_shards=3)
    assert seen[0] <= len(paths) - finished
    tio.tools.reshard(paths, tmp_path / "x", num_shards=3)
    assert_same_as_local(in_store, tmp_path)


def test_the_commands_on_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    paths = write_files(tmp_path, [5, 6])
    done = CliRunner().invoke(app, ["index", *paths, "--ray", cluster.address])
    assert [line.partition(", ")[0] for line in done.stdout.splitlines()] == [
        f"{path}: indexed" for path in paths
    ]
    done = CliRunner().invoke(app, ["verify", *paths, "--ray", cluster.address])
    assert "2 files, 0 with errors" in done.stdout
    output = str(tmp_path / "out")
    arguments = ["--num-shards", "2", "--ray", cluster.address]
    done = CliRunner().invoke(app, ["reshard", *paths, "--output", output, *arguments])
    assert "11 records in 2 files" in done.stdout
    arguments += ["--force", "--seed", "1"]
    done = CliRunner().invoke(app, ["shuffle", *paths, "--output", output, *arguments])
    assert "11 records in 2 files" in done.stdout
    assert list(tio.TFRecordDataset(paths, shuffle=True, seed=1))[::2] == list(
        tio.TFRecordDataset(f"{output}-00000-of-00002")
    )
    schemas = [
        CliRunner().invoke(app, ["schema", *paths, *options]).stdout
        for options in (["--ray", cluster.address], ["--all"])
    ]
    assert schemas[0] == schemas[1]
    source = tmp_path / "rows.jsonl"
    source.write_text('{"x": 1}\n{"x": 2}\n')
    done = CliRunner().invoke(app, ["convert", str(source), output, "--ray", cluster.address])
    assert done.exit_code == 0
    assert [
        int(each["x"])
        for each in tio.TFRecordDataset(
            f"{output}.tfrecord", {"x": tio.FixedLenFeature([], "int64")}
        )
    ] == [1, 2]


@pytest.mark.usefixtures("cluster")
def test_the_page_of_the_cluster(tmp_path: Path) -> None:
    run_page("cluster.md", tmp_path, [9, 4, 11], 3)
