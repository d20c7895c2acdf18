"""Outputs that exist: every command refuses them without --force, and replaces them with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.images import encoded, noise
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io._writing.output_group import OutputGroup

# Each command, and one of its outputs.
COMMANDS = {
    "merge": (["merge", "in", "-o", "out/x"], "x"),
    "subset": (["subset", "in", "-o", "out/x", "--every", "2"], "x"),
    "split": (["split", "in", "-o", "out/x", "--fractions", "50,50"], "x-test.tfrecord"),
    "reshard": (["reshard", "in", "-o", "out/x", "--num-shards", "2"], "x-00001-of-00002"),
    "report": (["report", "in", "-o", "out/x.html"], "x.html"),
    "shuffle": (["shuffle", "in", "-o", "out/x", "--num-shards", "2"], "x-00000-of-00002"),
    "compress": (["compress", "in", "-o", "out"], "b.tfrecord.gz"),
    "decompress": (["decompress", "in", "-o", "out"], "a.tfrecord"),
    "repair": (["repair", "in/a.tfrecord", "out/x"], "x"),
    "to parquet shards": (
        ["convert", "in", "out/x", "--to", "parquet", "--num-shards", "2"],
        "x-00001-of-00002.parquet",
    ),
    "to webdataset": (["convert", "in", "out/x", "--to", "webdataset"], "x-000000.tar"),
    "from csv": (["convert", "x.csv", "out/x"], "x.tfrecord"),
    "from images": (["convert", "photos", "out/x"], "x.labels.txt"),
}


@pytest.fixture(autouse=True)
def _inputs(tmp_path: Path, inputs: None) -> None:
    del inputs
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    (tmp_path / "photos" / "cat" / "1.png").write_bytes(encoded(noise(4, 4)))
    (tmp_path / "out").mkdir()


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(("arguments", "name"), COMMANDS.values(), ids=COMMANDS)
def test_outputs_that_exist(run: Run, tmp_path: Path, arguments: Sequence[str], name: str) -> None:
    out = tmp_path / "out"
    (out / name).write_text("mine")
    refused = run(*arguments)
    assert refused.returncode == 1
    assert f"out/{name}: " in refused.stderr
    assert "exists; choose another name, or replace " in refused.stderr
    assert "(--force)" in refused.stderr
    assert files_in(out) == {name: b"mine"}
    replaced = run(*arguments, "--force")
    assert replaced.returncode == 0, replaced.stderr
    assert files_in(out).get(name) != b"mine"
    assert len(files_in(out)) > 1 or name.endswith((".parquet", ".tar", ".html"))


@pytest.mark.parametrize(
    ("command", "old", "other"),
    [
        (["reshard", "in", "--num-shards", "2", "-o"], "x-0000{}-of-00003", "x-00000-of-3"),
        (["shuffle", "in", "--max-bytes", "200", "-o"], "x-0000{}-of-00009", "xx-00000-of-00003"),
        (["convert", "x.csv", "--num-shards", "2"], "x-0000{}-of-00003", "x.tfrecord"),
        (["convert", "in", "--to", "parquet", "--num-shards", "2"], "x-0000{}-of-00003.parquet",
         "x-00000-of-00003"),
        (["convert", "in", "--to", "webdataset"], "x-00000{}.tar", "x-1.tar"),
    ],
)  # fmt: skip
def test_shards_of_another_number_are_replaced_as_well(
    run: Run, tmp_path: Path, command: Sequence[str], old: str, other: str
) -> None:
    """Readers would mix them up with the new ones. Other files stay."""
    out = tmp_path / "out"
    old_names = [old.format(number) for number in range(3)]
    for name in (*old_names, old_names[1] + ".tfidx", other):
        (out / name).write_text("old")
    before = files_in(out)
    assert run(*command, "out/x").returncode == 1
    assert files_in(out) == before
    done = run(*command, "out/x", "--force")
    assert done.returncode == 0, done.stderr
    after = files_in(out)
    assert b"old" not in {content for name, content in after.items() if name != other}
    assert after[other] == b"old"


def test_inputs_are_not_replaced(run: Run, tmp_path: Path) -> None:
    for number in range(3):
        write_tfrecord(tmp_path / "out" / f"x-0000{number}-of-00003", [b"x"])
    before = files_in(tmp_path / "out")
    for command in (["reshard"], ["shuffle", "--seed", "1"]):
        given = ["out", "-o", "out/x", "--num-shards", "2", "--force"]
        refused = run(*command, *given)
        assert refused.returncode == 2
        assert "could overwrite the input" in " ".join(refused.stderr.replace("│", "").split())
    assert run("merge", "out", "-o", "out/x-00000-of-00003", "--force").returncode == 2
    assert files_in(tmp_path / "out") == before


@pytest.mark.parametrize("name", ["reshard", "merge", "to parquet shards"])
def test_a_failure_leaves_the_old_outputs(run: Run, tmp_path: Path, name: str) -> None:
    arguments, output = COMMANDS[name]
    (tmp_path / "out" / output).write_text("mine")
    (tmp_path / "out" / "x-00000-of-00003").write_text("other")
    damaged = bytearray(frame(b"abc") * 3)
    damaged[-5] ^= 1
    (tmp_path / "in" / "c.tfrecord").write_bytes(damaged)
    before = files_in(tmp_path / "out")
    assert run(*arguments, "--force").returncode == 1
    assert files_in(tmp_path / "out") == before


def test_a_folder_of_files_is_never_replaced(run: Run, tmp_path: Path) -> None:
    (tmp_path / "out" / "mine").touch()
    given = ["convert", "in", "out", "--to", "files", "--feature", "n"]
    assert run(*given).returncode == 1
    refused = run(*given, "--force")
    assert refused.returncode == 2
    assert "--force cannot be used with --to files" in " ".join(refused.stderr.split())


def test_a_text_index_replaces_no_other_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "in" / "a.tfrecord.idx"
    path.write_text("notes of somebody")
    refused = run("index", "in/a.tfrecord", "--format", "text")
    assert refused.returncode == 1
    assert "--force" in refused.stderr
    assert path.read_text() == "notes of somebody"
    assert run("index", "in/a.tfrecord", "--format", "text", "--force").returncode == 0
    assert path.read_text().startswith("0 ")


def test_outputs_that_appear_meanwhile(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out" / "x"
    prepare: Callable[..., None] = OutputGroup.prepare

    def slowly(group: OutputGroup) -> None:
        prepare(group)
        out.write_text("mine")

    monkeypatch.setattr(OutputGroup, "prepare", slowly)
    assert run("merge", "in", "-o", "out/x").returncode == 1
    assert files_in(tmp_path / "out") == {"x": b"mine"}
