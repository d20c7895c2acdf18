"""The commands with --ray, on a stand-in for a cluster."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import ray.exceptions
from typer.testing import CliRunner, Result

import torchrec_io as tio
from tests.cluster.damage import damage_silently
from tests.cluster.local_ray import LocalRay
from tests.support.tfrecord import write_tfrecord
from torchrec_io.cli.commands import app
from torchrec_io.cluster import tasks


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments), "--ray", "auto"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with a large file that has an index, and a small one."""
    monkeypatch.chdir(tmp_path)
    write_tfrecord("large", [bytes([i]) * 5000 for i in range(100)])
    tio.RecordIndex.build("large").save()
    write_tfrecord("small", [b"x"] * 3)
    monkeypatch.setattr(tasks, "TASK_BYTES", 50_000)
    return tmp_path


def test_verify_takes_a_task_for_each_file(folder: Path, local_ray: LocalRay) -> None:
    done = run("verify", "large", "small")
    assert done.exit_code == 0, done.output
    assert len(local_ray.sent) == 2
    lines = done.stdout.splitlines()
    assert lines[:2] == [
        f"{folder / 'large'}: intact, 100 records, 501,600 bytes",
        f"{folder / 'small'}: intact, 3 records, 51 bytes",
    ]
    assert lines[2].startswith("2 files, 0 with errors; 103 records, 501.7 kB in ")
    damage_silently(folder / "large", [250_000])
    done = run("verify", "large", "small", "--json")
    assert done.exit_code == 1
    large, small = map(json.loads, done.stdout.splitlines())
    assert (large["ok"], large["records"], large["damaged"]) == (False, 99, 1)
    assert (small["ok"], small["seconds"]) == (True, None)


def test_an_option_without_an_address(
    folder: Path, local_ray: LocalRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses: list[str] = []
    monkeypatch.setattr(local_ray, "init", lambda address, **_: addresses.append(address))
    monkeypatch.setattr(local_ray, "is_started", True)
    for arguments in (
        ["verify", "large", "--ray"],
        ["verify", "--ray", "--json", "large"],
        ["verify", "--ray", "--", "large"],
        ["verify", "--ray", "local", "large"],
    ):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        assert str(folder / "large") in done.stdout
    assert addresses == ["auto", "auto", "auto", "local"]


@pytest.mark.usefixtures("folder")
def test_news_of_the_cluster_is_not_part_of_a_result(
    local_ray: LocalRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_a_node(task: Any) -> Any:
        thread = threading.Thread(target=print, args=("(raylet) a node was lost",))
        thread.start()
        thread.join()
        return LocalRay.get(local_ray, task)

    monkeypatch.setattr(local_ray, "get", lose_a_node)
    done = run("verify", "large", "small", "--json")
    assert done.exit_code == 0, done.output
    assert [json.loads(line)["ok"] for line in done.stdout.splitlines()] == [True, True]
    assert set(done.stderr.splitlines()) == {"(raylet) a node was lost"}


@pytest.mark.usefixtures("local_ray")
def test_an_error_of_verify(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", str(folder / "small"))

    monkeypatch.setattr("torchrec_io.cluster.verification.verify_file", refuse)
    done = run("verify", "large", "small")
    assert done.exit_code == 1
    assert done.stderr == f"{folder / 'small'}: Permission denied\n"


@pytest.mark.usefixtures("local_ray")
def test_index(folder: Path) -> None:
    write_tfrecord("cut", [b"x"] * 3)
    (folder / "cut").write_bytes((folder / "cut").read_bytes()[:-1])
    done = run("index", "large", "cut", "small")
    assert done.exit_code == 1, done.output
    assert [line.partition(": ")[2] for line in done.stdout.splitlines()] == [
        "up to date, 100 records, 501,600 bytes",
        "indexed, 3 records, 51 bytes",
    ]
    [error] = done.stderr.splitlines()
    assert error.startswith(f"{folder / 'cut'}: the record reaches past the end of the file")
    assert (folder / "small.tfidx").exists()
    refused = run("index", "small", "--output-dir", "indexes")
    assert refused.exit_code == 2
    assert "--output-dir cannot be used with --ray" in " ".join(refused.stderr.split())
    assert not (folder / "indexes").exists()


@pytest.mark.usefixtures("local_ray", "folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shuffle"], "--ray needs --num-shards"),
        (["shuffle", "--max-bytes", "1MB"], "--max-bytes cannot be used with --ray"),
        (["reshard"], "exactly one of num_shards and max_bytes"),
    ],
)
def test_options_that_do_not_fit(arguments: list[str], message: str) -> None:
    done = run(*arguments, "large", "--output", "out")
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.replace("│", "").split())


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["verify", "index", "reshard", "schema"])
def test_an_error_of_the_cluster(
    local_ray: LocalRay, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def fail(_: Any) -> None:
        raise ray.exceptions.WorkerCrashedError

    monkeypatch.setattr(local_ray, "get", fail)
    more = ["--output", "out", "--num-shards", "2"] if command == "reshard" else []
    done = run(command, "large", *more)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: Ray: The worker died unexpectedly")
    assert "Traceback" not in done.output
