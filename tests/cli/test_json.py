"""The option --json: each command prints JSON and nothing else to stdout."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchrec_io as tio
from tests.cli.conftest import Run
from tests.support.tfds import numbered, write_tfds
from tests.support.tfrecord import frame
from torchrec_io._storage.cache.folder import CacheFolder
from torchrec_io.cli.commands import app

# Commands whose output is an object, and others, whose output is an object a line.
OBJECTS = {
    "merge": ["merge", "in", "-o", "x"],
    "split": ["split", "in", "-o", "x", "--fractions", "80 20"],
    "reshard": ["reshard", "in", "-o", "x", "--num-shards", "2"],
    "shuffle": ["shuffle", "in", "-o", "x", "--num-shards", "2"],
    "subset": ["subset", "in", "-o", "x", "--every", "2"],
    "compress": ["compress", "in", "-o", "x"],
    "decompress": ["decompress", "in", "-o", "x"],
    "convert": ["convert", "x.csv", "x"],
    "convert to": ["convert", "in", "x", "--to", "parquet"],
    "repair": ["repair", "in/a.tfrecord", "x"],
    "schema": ["schema", "in"],
    "report": ["report", "in"],
    "tfds": ["tfds", "set"],
    "cache": ["cache", "blocks"],
}
LINES = {
    "head": ["head", "in"],
    "index": ["index", "in"],
    "verify": ["verify", "in"],
}


@pytest.fixture(autouse=True)
def _inputs(tmp_path: Path, inputs: None) -> None:
    del inputs
    write_tfds(tmp_path / "set", {"train": [numbered(1, 2, 3)]})
    folder = CacheFolder(str(tmp_path / "blocks"), 1 << 20)
    folder.store(f"{0:032x}-0", np.zeros(3, np.uint8))


def lines_of(result: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_every_command_has_it() -> None:
    named = {arguments[0] for arguments in (*OBJECTS.values(), *LINES.values())}
    assert {command.name or command.callback.__name__ for command in app.registered_commands
            if command.callback is not None} == named  # fmt: skip


# The commands with inputs that do not exist.
AWAY = {"in": "away", "in/a.tfrecord": "away", "x.csv": "away.csv", "set": "away", "blocks": "away"}


@pytest.mark.parametrize("name", [*OBJECTS, *LINES])
def test_objects_lines_and_errors(run: Run, name: str) -> None:
    """Errors go to stderr, whatever goes to stdout. A path without a file is a usage error."""
    arguments = {**OBJECTS, **LINES}[name]
    failed = run(*(AWAY.get(argument, argument) for argument in arguments), "--json")
    assert failed.returncode in (1, 2)
    assert failed.stdout == ""
    assert "away" in failed.stderr
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    found = [json.loads(done.stdout)] if name in OBJECTS else lines_of(done)
    assert all(isinstance(each, dict) for each in found)
    assert len(found) == {"head": 4, "index": 2, "verify": 2}.get(name, 1)


def test_results_of_tools(run: Run, tmp_path: Path) -> None:
    damaged = bytearray(frame(b"abc") * 3)
    damaged[-5] ^= 1
    (tmp_path / "in" / "c.tfrecord").write_bytes(damaged)
    failed = run("split", "in", "-o", "x", "--fractions", "1,1", "--json")
    assert (failed.returncode, failed.stdout) == (1, "")
    done = run("split", "in", "-o", "x", "--fractions", "1,1", "--json", "--on-error", "skip")
    found = json.loads(done.stdout)
    assert [file["file"] for file in found["files"]] == ["x-train.tfrecord", "x-test.tfrecord"]
    assert sum(file["records"] for file in found["files"]) == found["records"] == 10
    assert found["skipped"] == 1
    [error] = found["errors"]
    assert (error["file"], error["record"]) == ("in/c.tfrecord", 2)
    assert "does not match" in error["reason"]
    assert found["file_bytes"] == sum(path.stat().st_size for path in tmp_path.glob("x-*d"))
    assert found["schema"] is None


def test_schema_of_a_conversion(run: Run) -> None:
    found = json.loads(run("convert", "x.csv", "x", "--json").stdout)
    schema = tio.Schema.from_json(json.dumps(found["schema"]))
    assert schema == tio.Schema({"n": tio.FixedLenFeature([], "int64")})
    assert run("schema", "x.tfrecord", "--json").stdout == run(
        "schema", "x.tfrecord", "--format", "json"
    ).stdout  # fmt: skip


def test_damage(run: Run, tmp_path: Path) -> None:
    damaged = bytearray(frame(b"abc") * 3)
    damaged[13] ^= 1
    damaged[2 * 19] ^= 1
    (tmp_path / "bad").write_bytes(damaged)
    (tmp_path / "text").write_text("some text\n" * 9)
    done = run("verify", "bad", "in/a.tfrecord", "--json")
    assert done.returncode == 1
    bad, good = lines_of(done)
    assert (bad["file"], bad["ok"], bad["records"], bad["damaged"]) == ("bad", False, 1, 1)
    assert [one["record"] for one in bad["damage"]] == [0]
    assert (bad["lost"]["record"], bad["lost"]["bytes"]) == (2, 19)
    assert (good["ok"], good["records"], good["damage"], good["lost"]) == (True, 4, [], None)
    done = run("index", "text", "in/a.tfrecord", "--json")
    assert done.returncode == 1
    failed, indexed = lines_of(done)
    assert failed["state"] == "failed"
    assert "text" in failed["error"]["reason"]
    assert (indexed["state"], indexed["records"]) == ("indexed", 4)
    assert "text: " in done.stderr


def test_directories_of_tfds(run: Run, tmp_path: Path) -> None:
    found = json.loads(run("tfds", "set", "--json").stdout)
    [split] = found["splits"]
    assert (split["name"], split["records"], split["shards"], split["ok"]) == ("train", 3, 1, True)
    assert found["ok"]
    next((tmp_path / "set").glob("*train*")).unlink()
    done = run("tfds", "set", "--json")
    assert done.returncode == 1
    [split] = json.loads(done.stdout)["splits"]
    assert (split["missing"], split["ok"]) == (1, False)
