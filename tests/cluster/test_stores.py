"""Jobs that write to a store: the files of one machine, interruptions, and what is left of them."""

from __future__ import annotations

import functools
import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.cluster.local_ray import LocalRay
from tests.cluster.stored import assert_same_as_local, names, visible
from tests.cluster.test_conversion import KINDS
from tests.cluster.test_resharding import RECORDS, Stop
from tests.storage.remote.test_commits import in_child
from tests.support.stores import S3Server
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io._records.manifest import MANIFEST_NAME
from torchrec_io._storage.folders import stamps_in
from torchrec_io._storage.location import Location
from torchrec_io._storage.remote.adopted_object import AdoptedObject
from torchrec_io._storage.remote.connection import HelperConnection
from torchrec_io._storage.remote.options import RemoteOptions
from torchrec_io._storage.remote.upload import put_object
from torchrec_io.cluster import spills, tasks
from torchrec_io.cluster.parts import PartFolder


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setattr(tasks, "TASK_BYTES", 1)
    monkeypatch.setattr(spills, "RUN_BYTES", 300)
    return [write_tfrecord(tmp_path / f"in{i}", RECORDS[16 * i : 16 * i + 16]) for i in range(5)]


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize(
    ("job", "options"),
    [
        ("reshard", {"num_shards": 3}),
        ("reshard", {"max_bytes": 1000}),
        ("reshard", {"num_shards": 2, "compression": "gzip", "index": False}),
        ("shuffle", {"num_shards": 3, "seed": 5}),
    ],
)
def test_shards_are_those_of_one_machine(
    inputs: list[Path],
    tmp_path: Path,
    in_store: str,
    job: str,
    options: dict[str, Any],
) -> None:
    limits = {"task_bytes": 700} if job == "shuffle" else {}
    found = getattr(tio.cluster, job)(inputs, f"{in_store}/x", **options, **limits)
    wanted = getattr(tio.tools, job)(inputs, tmp_path / "x", **options)
    assert (found.counts, found.file_bytes) == (wanted.counts, wanted.file_bytes)
    assert_same_as_local(in_store, tmp_path)
    dataset = tio.TFRecordDataset(f"{in_store}/x-*")
    assert sorted(dataset) == sorted(RECORDS)
    with pytest.raises(FileExistsError):
        getattr(tio.cluster, job)(inputs, f"{in_store}/x", **options)
    getattr(tio.cluster, job)(inputs, f"{in_store}/x", num_shards=1, force=True)
    assert visible(in_store) == names(in_store) == {
        "x-00000-of-00001", "x-00000-of-00001.tfidx"}  # fmt: skip


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("kind", KINDS)
def test_conversions(tmp_path: Path, in_store: str, kind: str) -> None:
    sources = KINDS[kind](tmp_path)
    options: dict[str, Any] = {"on_error": "skip"}
    if kind != "npz":
        options["num_shards"] = 2
    found, wanted = (
        getattr(room, f"from_{kind}")(sources, f"{folder}/x", **options)
        for room, folder in ((tio.cluster, in_store), (tio.convert, tmp_path))
    )
    assert (found.counts, found.schema) == (wanted.counts, wanted.schema)
    assert_same_as_local(in_store, tmp_path)


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("name", ["reshard", "shuffle", "from_npz", "index"])
def test_options_of_the_store(
    inputs: list[Path],
    in_store: str,
    s3: S3Server,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All that is no secret comes from storage_options, and secrets from the environment."""
    job = getattr(tio.cluster, name)
    secrets = {"access_key_id", "secret_access_key"}
    options = {each: value for each, value in s3.options().items() if each not in secrets}
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.delenv("AWS_REGION")
    sources: Any = KINDS["npz"](inputs[0].parent) if name == "from_npz" else inputs
    if name == "index":
        sources = s3.put(f"{in_store.removeprefix('s3://data/')}/a", inputs[0].read_bytes())
        [found] = job(sources, storage_options=options)
        assert found.state == "indexed"
        return
    result = job(sources, f"{in_store}/x", num_shards=2, storage_options=options)
    assert job(sources, f"{in_store}/x", num_shards=2, force=True, storage_options=options)
    dataset = tio.TFRecordDataset(f"{in_store}/x-*", storage_options=options)
    assert dataset.num_records == result.records
    left = stamps_in(Location.of(in_store, options), is_recursive=True)
    assert not any(each.startswith(".") for each in left)


def test_a_job_whose_driver_was_killed_continues(
    inputs: list[Path], tmp_path: Path, in_store: str, local_ray: LocalRay
) -> None:
    def driver() -> None:
        class Kill(Stop):
            def advanced(self, size: int, records: int) -> None:
                try:
                    super().advanced(size, records)
                except KeyboardInterrupt:
                    os.kill(os.getpid(), signal.SIGKILL)

        tio.cluster.reshard(inputs, f"{in_store}/x", num_shards=4, watcher=Kill(7))

    kill(driver)
    left = names(in_store)
    assert not visible(in_store)
    assert sum(name.endswith(".json") for name in left) >= 7
    result = tio.cluster.reshard(inputs, f"{in_store}/x", num_shards=4)
    assert result.counts == (20, 20, 20, 20)
    assert len(local_ray.sent) <= 9 - 7
    tio.tools.reshard(inputs, tmp_path / "x", num_shards=4)
    assert_same_as_local(in_store, tmp_path)


def kill(work: Callable[[], object]) -> None:
    """Run a function in a child that kills itself."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("job", ["reshard", "shuffle"])
@pytest.mark.parametrize("copies", [0, 3, 5, None])
def test_a_job_that_was_killed_while_shards_got_their_names(
    inputs: list[Path], tmp_path: Path, in_store: str, job: str, copies: int | None
) -> None:
    run = getattr(tio.cluster, job)

    def driver() -> None:
        monkeypatch = pytest.MonkeyPatch()
        done: list[str] = []
        rename = AdoptedObject.rename

        def stopping(adopted: AdoptedObject, url: str, **options: Any) -> None:
            if len(done) == copies:
                os.kill(os.getpid(), signal.SIGKILL)
            rename(adopted, url, **options)
            done.append(url)

        if copies is None:
            patched = "torchrec_io.cluster.parts.remove_folder"
            monkeypatch.setattr(patched, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        monkeypatch.setattr(AdoptedObject, "rename", stopping)
        monkeypatch.setattr("torchrec_io._storage.remote.object_commit._MOST_AT_ONCE", 1)
        run(inputs, f"{in_store}/x", num_shards=3)

    kill(driver)
    if copies is None:
        assert len(visible(in_store)) == 6
    elif copies == 5:
        assert len(visible(in_store)) == 5  # the last index is not there
    else:
        with pytest.raises(FileNotFoundError):
            tio.TFRecordDataset(f"{in_store}/x-*")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartFolder, "write", None)  # nothing is written again
        found = run(inputs, f"{in_store}/x", num_shards=3, force=copies in (3, 5))
        assert found.counts == (27, 27, 26)
    getattr(tio.tools, job)(inputs, tmp_path / "x", num_shards=3)
    assert_same_as_local(in_store, tmp_path)


def test_a_failed_commit_leaves_nothing_visible(
    inputs: list[Path], in_store: str, local_ray: LocalRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = HelperConnection.ask

    def failing(client: HelperConnection, store: Any, name: str, *rest: Any) -> Any:
        if name == "copy" and rest[0].endswith("x-00001-of-00002"):
            raise OSError(5, "a fault of the test")
        return ask(client, store, name, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(HelperConnection, "ask", failing)
        with pytest.raises(OSError, match="a fault of the test"):
            tio.cluster.reshard(inputs, f"{in_store}/x", num_shards=2)
    assert not visible(in_store)
    local_ray.sent.clear()
    tio.cluster.reshard(inputs, f"{in_store}/x", num_shards=2)
    assert local_ray.sent == []
    assert len(names(in_store)) == 4


def test_indexes_are_written_beside_objects(
    in_store: str, local_ray: LocalRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "TASK_BYTES", 1)
    for number in range(3):
        with tio.TFRecordWriter(f"{in_store}/x{number}.tfrecord") as writer:
            for record in RECORDS[: 10 + number]:
                writer.write(record)
    paths = [f"{in_store}/x{number}.tfrecord" for number in range(3)]
    found = tio.cluster.index(in_store)
    assert [(each.path, each.state, each.records) for each in found] == [
        (path, "indexed", 10 + number) for number, path in enumerate(paths)
    ]
    assert {*(f"x{number}.tfrecord.tfidx" for number in range(3)), MANIFEST_NAME} < names(in_store)
    assert len(local_ray.sent) == 3
    assert max(local_ray.sent) < 2000
    again = tio.cluster.index(paths)
    assert [(each.state, each.records) for each in again] == [
        ("up to date", 10 + number) for number in range(3)
    ]
    put_object(paths[1], frame(b"new"), RemoteOptions())
    assert [each.state for each in tio.cluster.index(paths)] == [
        "up to date", "indexed", "up to date"]  # fmt: skip
    assert tio.TFRecordDataset(in_store).num_records == 10 + 1 + 12
    put_object(paths[2], b"no record", RemoteOptions())
    with pytest.raises(tio.TruncatedFileError, match=r"x2\.tfrecord"):
        tio.cluster.index(paths)
    with pytest.raises(OSError, match="an HTTP server cannot be written"):
        tio.cluster.index("https://host/a")


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
def test_a_driver_that_is_killed_at_any_request(tmp_path: Path, in_store: str) -> None:
    """Readers find nothing, an error or all shards, and the same job finishes the rest."""
    paths = [write_tfrecord(tmp_path / f"in{i}", RECORDS[9 * i : 9 * i + 9]) for i in range(2)]
    tio.tools.reshard(paths, tmp_path / "x", num_shards=2)
    wanted = {path.name for path in tmp_path.iterdir() if path.name.startswith("x")}
    for number in itertools.count(1, 4):
        folder = f"{in_store}/{number}"
        job = functools.partial(tio.cluster.reshard, paths, f"{folder}/x", num_shards=2)
        is_killed = in_child(job, number)
        try:
            found = list(tio.TFRecordDataset(f"{folder}/x-*"))
            assert sorted(found) == sorted(RECORDS[:18])
            shards = {name for name in wanted if not name.endswith(".tfidx")}
            assert shards <= visible(folder) <= wanted  # indexes may come after their shards
        except FileNotFoundError:
            assert is_killed
        if is_killed:
            job(force=True)
        assert_same_as_local(folder, tmp_path)
        if not is_killed:
            break
    assert number > 40


# ---- arguments ----


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("https://host/a", {"num_shards": 1}, OSError, "an HTTP server cannot be written"),
        ("s3://data", {"num_shards": 1}, ValueError, "must be the URL of an object in a store"),
        ("s3://data/x", {"max_bytes": 6 << 30}, ValueError, r"at most 5,368,709,120 \(5 GiB\)"),
    ],
)
def test_urls_that_cannot_be_written(
    inputs: list[Path], name: str, options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        tio.cluster.reshard(inputs, name, **options)


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("job", ["reshard", "shuffle"])
def test_shards_that_a_store_cannot_copy(
    inputs: list[Path], in_store: str, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchrec_io.cluster.shard_job.MOST_OBJECT_BYTES", 1000)
    with pytest.raises(ValueError, match=r"num_shards must be at least 5 for .* bytes"):
        getattr(tio.cluster, job)(inputs, f"{in_store}/x", num_shards=4)
    assert not visible(in_store)


@pytest.mark.usefixtures("local_ray")
def test_a_filesystem_of_fsspec(inputs: list[Path], tmp_path: Path) -> None:
    tio.cluster.reshard(inputs, "memory://cluster/x", num_shards=2)
    tio.tools.reshard(inputs, tmp_path / "x", num_shards=2)
    assert_same_as_local("memory://cluster", tmp_path)
