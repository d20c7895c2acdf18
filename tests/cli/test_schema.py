"""The command ``torchrec-io schema``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.cli.conftest import Run
from tests.presets.published import write_kaggle, write_ranking
from tests.support.datasets import SCHEMA, write_files
from tests.support.messages import Example, SequenceExample
from tests.support.tfrecord import frame, write_tfrecord
from tests.support.wire import delimited, entry, example, int_feature


def rows(stderr: str) -> dict[str, str]:
    """Return the lines of the table by their first word."""
    lines = [line.split() for line in stderr.splitlines() if line.strip()]
    return {line[0]: " ".join(line[1:]) for line in lines}


def run_source(source: str) -> Any:
    space: dict[str, Any] = {}
    exec(source, space)  # noqa: S102  # source that the command has printed
    return space["schema"]


def test_python_on_stdout_and_reasons_on_stderr(run: Run, tmp_path: Path) -> None:
    write_files(tmp_path, [20, 10])
    result = run("schema", ".")
    assert result.returncode == 0, result.stderr
    assert run_source(result.stdout) == tio.Schema(SCHEMA)
    found = rows(result.stderr)
    assert found["id"] == (
        "int64 in 30/30 records, 1 value, 0 to 29: FixedLenFeature, every record has 1 value"
    )
    assert found["name"].startswith("bytes in 30/30 records, 1 value, 8 to 9 bytes, UTF-8 text: ")
    assert "0 to 4 values, 0 to 3: VarLenFeature, records have from 0 to 4" in found["tokens"]


def test_max_records(run: Run, tmp_path: Path) -> None:
    write_files(tmp_path, [20, 20])
    assert rows(run("schema", ".", "--max-records", 6).stderr)["id"].startswith("int64 in 6/6")
    assert run("schema", ".", "--max-records", 0).returncode == 2


def test_damaged_records_are_skipped_if_asked(run: Run, tmp_path: Path) -> None:
    records = [example(entry(b"a", int_feature(number))) for number in range(3)]
    content = bytearray(b"".join(map(frame, records)))
    content[14] ^= 1
    (tmp_path / "x").write_bytes(content)
    failed = run("schema", "x")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "x: the record's data does not match" in failed.stderr
    done = run("schema", "x", "--on-error", "skip")
    assert done.returncode == 0, done.stderr
    assert run_source(done.stdout) == tio.Schema({"a": tio.FixedLenFeature([], "int64")})
    assert rows(done.stderr)["a"].startswith("int64 in 2/2")


@pytest.mark.parametrize("width", [40, 120])
def test_the_table_has_the_width_of_columns(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    write_files(tmp_path, [20])
    monkeypatch.setenv("COLUMNS", str(width))
    shown = run("schema", ".").stderr.splitlines()
    assert width - 20 < max(map(len, shown)) <= width
    words = " ".join(" ".join(shown).split())
    assert "id int64 in 20/20 records, 1 value, 0 to 19: FixedLenFeature, every" in words
    monkeypatch.setenv("COLUMNS", "0")  # as if it were not set
    assert max(map(len, run("schema", ".").stderr.splitlines())) > 100


def test_sequences(run: Run, tmp_path: Path) -> None:
    sequence = SequenceExample()
    sequence.context.feature["id"].int64_list.value.append(2)
    steps = sequence.feature_lists.feature_list["tokens"].feature
    for count in (1, 2):
        steps.add().float_list.value.extend([0.5] * count)
    sequence.feature_lists.feature_list["nothing"].SetInParent()
    write_tfrecord(tmp_path / "x", [sequence.SerializeToString()])
    result = run("schema", "x")
    assert run_source(result.stdout) == tio.Schema(
        context={"id": tio.FixedLenFeature([], "int64")},
        sequence={"tokens": tio.VarLenFeature("float32")},
    )
    found = rows(result.stderr)
    assert found["tokens"].startswith(
        "float in 1/1 records, 2 steps of 1 to 2, 0.5: VarLenFeature, steps have"
    )
    assert found["nothing"].startswith(
        "none in 1/1 records, 0 steps of none: left out, no record has values"
    )


def test_preset(run: Run, tmp_path: Path) -> None:
    write_kaggle(tmp_path / "data")
    result = run("schema", "data")
    assert result.returncode == 0, result.stderr
    assert result.stdout == (
        "import torchrec_io as tio\n\n"
        "schema = tio.presets.kaggle_images(image=tio.ImageFeature(size=[5, 5]))\n"
    )
    assert (
        "tio.presets.kaggle_images reads these records: the records have 'image'" in result.stderr
    )
    assert rows(result.stderr)["class"].startswith("int64 in 3/3")
    as_json = run("schema", "data", "--format", "json")
    assert tio.Schema.from_json(as_json.stdout) == run_source(result.stdout)


def test_tfds_directory(run: Run, tmp_path: Path) -> None:
    write_kaggle(tmp_path / "data")
    assert "from_tfds" not in run("schema", "data").stderr
    (tmp_path / "data" / "features.json").write_text("{}", "utf-8")
    result = run("schema", "data")
    assert result.returncode == 0, result.stderr
    assert "data is a directory of TensorFlow Datasets: use tio.Schema.from_tfds" in result.stderr


def test_lists_of_examples(run: Run, tmp_path: Path) -> None:
    write_ranking(tmp_path)
    result = run("schema", "elwc.tfrecord")
    assert result.returncode == 0, result.stderr
    words = tio.VarLenFeature("string")
    preset = tio.presets.ranking_elwc({"document_tokens": words}, {"query_tokens": words})
    assert run_source(result.stdout) == preset
    assert rows(result.stderr)["relevance"].startswith("int64 in 3/3")
    as_json = run("schema", "elwc.tfrecord", "--format", "json")
    assert tio.ranking.Schema.from_json(as_json.stdout) == preset


HOSTILE = '\x1b]0;pwned\x07"""\'\'\' + __import__("os").abort()\n# \u202e\x7f\x9b31m'


def test_hostile_names_are_escaped(run: Run, tmp_path: Path) -> None:
    message = Example()
    message.features.feature[HOSTILE].bytes_list.value.append(b"\x1b[31m")
    message.features.feature["x" * 5000].int64_list.value.append(1)
    odd = example(entry(b"\xff\x1b[31m", int_feature(1)))
    write_tfrecord(tmp_path / "x", [message.SerializeToString() + odd])
    for form in ("python", "json"):
        result = run("schema", "x", "--format", form)
        assert result.returncode == 0
        for shown in (result.stdout, result.stderr):
            assert shown.replace("\n", "").isprintable()
        read = run_source if form == "python" else tio.Schema.from_json
        schema: tio.Schema = read(result.stdout)
        assert set(schema) == {HOSTILE, "x" * 5000}
        assert "\\udcff\\x1b[31m" in result.stderr
        assert "the name is not UTF-8" in " ".join(result.stderr.split())


def test_names_that_the_terminal_cannot_show(
    tmp_path: Path, run_process: Run, monkeypatch: Any
) -> None:
    message = Example()
    message.features.feature["日本"].int64_list.value.append(1)
    write_tfrecord(tmp_path / "x", [message.SerializeToString()])
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    for form, read in (("python", run_source), ("json", tio.Schema.from_json)):
        result = run_process("schema", "x", "--format", form)
        assert result.returncode == 0, result.stderr
        assert list(read(result.stdout)) == ["日本"]


def test_errors_are_one_line(run: Run, tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "text", [b"plain text"])
    write_tfrecord(tmp_path / "empty", [])
    (tmp_path / "cut").write_bytes(frame(delimited(1, b""))[:-1])
    for name, reason in {
        "text": "text: the record is neither a tf.train.Example nor a tf.train.SequenceExample "
        "(record 0, offset 0)",
        "empty": "a schema cannot be inferred without records, got none",
    }.items():
        result = run("schema", name)
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr == f"{reason}\n"
    result = run("schema", "cut")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("cut: the record reaches past the end of the file")
    result = run("schema", "nowhere")
    assert (result.returncode, result.stderr) == (2, "error: no such file: 'nowhere'\n")
    assert run("schema", "text", "--format", "yaml").returncode == 2
