"""A cluster of two Ray nodes on this machine."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.data.expressions import col
from typer.testing import CliRunner

import torchrec_io as tio
from tests.cluster.damage import damage_silently
from tests.cluster.rows import assert_same
from tests.cluster.stored import names
from tests.support import every_kind
from tests.support.datasets import SCHEMA, write_files
from tests.support.pages import run_page
from tests.support.stores import S3Server
from tests.support.tfrecord import write_tfrecord
from torchrec_io.cli.commands import app
from torchrec_io.cluster import shuffling, tasks
from torchrec_io.cluster.datasink import TFRecordDatasink

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


# ---- shuffles ----


def shuffled(paths: list[str], seed: int) -> list[Any]:
    return list(tio.TFRecordDataset(paths, shuffle=True, seed=seed))


@pytest.mark.usefixtures("cluster")
def test_a_shuffle_has_the_order_of_a_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order does not depend on the files that Ray Data sorts the records to."""
    paths = write_files(tmp_path, [50, 0, 70])
    monkeypatch.setattr(shuffling, "_SORTED_BYTES", 4000)
    result = tio.cluster.shuffle(paths, tmp_path / "out" / "x", num_shards=7, seed=4)
    assert result.counts == (17, 17, 17, 17, 17, 17, 18)
    assert list(tio.TFRecordDataset(result.paths)) == shuffled(paths, 4)
    assert len(os.listdir(tmp_path / "out")) == 14
    with pytest.raises(FileExistsError):
        tio.cluster.shuffle(paths, tmp_path / "out" / "x", num_shards=2)


@pytest.mark.usefixtures("cluster")
def test_damage_in_a_shuffle(tmp_path: Path) -> None:
    paths = write_files(tmp_path, [20, 20])
    index = tio.RecordIndex.build(paths[1])
    damage_silently(Path(paths[1]), [int(index.offsets[3]) + 14])
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(tio.CorruptRecordError) as raised:
        tio.cluster.shuffle(paths, tmp_path / "x", num_shards=2)
    assert (raised.value.path, raised.value.record) == (paths[1], 3)
    assert sorted(os.listdir(tmp_path)) == before
    result = tio.cluster.shuffle(paths, tmp_path / "x", num_shards=2, seed=1, on_error="skip")
    assert (result.counts, result.skipped) == ((19, 20), 1)
    wanted = tio.TFRecordDataset(paths, shuffle=True, seed=1, on_error="skip")
    assert list(tio.TFRecordDataset(result.paths)) == list(wanted)


@pytest.mark.usefixtures("cluster")
def test_a_record_that_is_lost_in_a_shuffle_is_not_taken_for_a_skipped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_files(tmp_path, [50, 70])
    index = tio.RecordIndex.build(paths[1])
    damage_silently(Path(paths[1]), [int(index.offsets[3]) + 14])
    before = sorted(os.listdir(tmp_path))

    def lose_a_file(sink: TFRecordDatasink, result: Any) -> None:
        sink.shards = [shard for shard in result.write_returns if shard.records][1:]

    monkeypatch.setattr(shuffling, "_SORTED_BYTES", 4000)
    monkeypatch.setattr(TFRecordDatasink, "on_write_complete", lose_a_file)
    with pytest.raises(RuntimeError, match="the sorted files have"):
        tio.cluster.shuffle(paths, tmp_path / "x", num_shards=2, on_error="skip")
    assert sorted(os.listdir(tmp_path)) == before


# ---- lost processes and nodes ----


class SlowTasks:
    """Tasks of which one on a node does not end before it is lost, and is then run again.

    A file in a folder tells the processes about it.
    """

    def __init__(self, folder: Path, node: str) -> None:
        self._chosen, self._node = folder / "chosen", node

    def run_tasks(self, function: Any, items: Any, sizes: Any) -> Any:
        """Run tasks of which one on the node gets lost."""
        return run_tasks(functools.partial(self._slowly, function=function), items, sizes)

    def when_running(self, act: Callable[[], object]) -> threading.Thread:
        """Call a function, in a thread, when the task runs."""

        def wait() -> None:
            while not self._chosen.exists():
                time.sleep(0.01)
            act()

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        return thread

    def _slowly(self, item: Any, *, function: Any) -> Any:
        if self._node == ray.get_runtime_context().get_node_id():
            with contextlib.suppress(FileExistsError), self._chosen.open("x"):
                time.sleep(600)
        return function(item)


run_tasks = tasks.run_tasks


def test_no_record_is_lost_with_a_node(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "TASK_BYTES", 1)
    (tmp_path / "data").mkdir()
    paths = write_files(tmp_path / "data", [200] * 10)
    tio.cluster.index(paths)
    node = cluster.add_node(num_cpus=2, object_store_memory=100 << 20)
    cluster.wait_for_nodes()
    lost = SlowTasks(tmp_path, node.node_id)
    killer = lost.when_running(lambda: cluster.remove_node(node, allow_graceful=False))
    monkeypatch.setattr(tasks, "run_tasks", lost.run_tasks)
    found = tio.cluster.reshard(paths, tmp_path / "data" / "x", num_shards=7)
    killer.join()
    assert list(tio.TFRecordDataset(found.paths)) == list(tio.TFRecordDataset(paths))
    assert len(os.listdir(tmp_path / "data")) == 2 * (10 + 7)


@pytest.mark.usefixtures("cluster")
def test_no_record_is_lost_with_workers_of_ray_data(tmp_path: Path) -> None:
    paths = write_files(tmp_path, [3000] * 4)
    tio.cluster.index(paths)
    operators = {"Read", "Map", "Reduce", "Write"}
    killed: set[str] = set()
    token = f"RAY_AUTH_TOKEN_PATH={os.environ['RAY_AUTH_TOKEN_PATH']}\0".encode()
    is_done = threading.Event()

    def kill_one_of_each() -> None:
        while not is_done.wait(0.001):
            for process in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    title = (process / "cmdline").read_bytes().decode()
                    operator = next((each for each in operators if each in title), "")
                    if not title.startswith("ray::") or operator not in operators - killed:
                        continue
                    if token in (process / "environ").read_bytes():  # of this cluster
                        os.kill(int(process.name), signal.SIGKILL)
                        killed.add(operator)

    thread = threading.Thread(target=kill_one_of_each, daemon=True)
    thread.start()
    found = tio.cluster.shuffle(paths, tmp_path / "x", num_shards=2, seed=1)
    is_done.set()
    thread.join()
    assert len(killed) >= 2
    assert list(tio.TFRecordDataset(found.paths)) == shuffled(paths, 1)


# ---- commands and the page ----


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
    assert list(tio.TFRecordDataset(f"{output}-*")) == shuffled(paths, 1)
    schemas = [
        CliRunner().invoke(app, ["schema", *paths, *options]).stdout
        for options in (["--ray", cluster.address], ["--all"])
    ]
    assert schemas[0] == schemas[1]


@pytest.mark.usefixtures("cluster")
def test_the_page_of_the_cluster(tmp_path: Path) -> None:
    run_page("cluster.md", tmp_path, [9, 4, 11], 3)
