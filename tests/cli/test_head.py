"""The command ``torchrec-io head``."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.support.example_lists import ExampleListWithContext
from tests.support.images import encoded, noise
from tests.support.messages import Example, SequenceExample
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io.cli.commands import app

Head = Callable[..., Result]


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Head:
    """Return a function that runs the command with arguments in ``tmp_path``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    return lambda *arguments: CliRunner().invoke(app, ["head", *map(str, arguments)])


def ints(**features: list[int]) -> bytes:
    example = Example()
    for name, values in features.items():
        example.features.feature[name].int64_list.value.extend(values)
    data: bytes = example.SerializeToString()
    return data


def rows_of(output: str) -> dict[str, list[str]]:
    """Return the cells of each row by the row's name; at least two spaces are between cells."""
    rows = {}
    for line in output.splitlines():
        name, *cells = [cell.strip() for cell in line.replace("   ", "\t").split("\t")]
        rows[name or line.split("\t")[0]] = [cell for cell in cells if cell]
    return rows


# ---- the table ----


def test_only_some_of_many_features_are_shown(head: Head, tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "x", [ints(**{f"f{number}": [number] for number in range(20_000)})])
    lines = head("x").stdout.splitlines()
    assert len(lines) < 1010
    assert lines[-1] == "and 19,000 more rows: --all-features shows them"
    assert rows_of("\n".join(lines))["f999"] == ["int64", "999"]
    write_tfrecord(tmp_path / "y", [ints(**{f"f{number}": [number] for number in range(1001)})])
    assert "f1000" not in head("y").stdout
    assert rows_of(head("y", "--all-features").stdout)["f1000"] == ["int64", "1000"]


def test_features_are_rows_and_records_are_columns(head: Head, tmp_path: Path) -> None:
    example = Example()
    features = example.features.feature
    features["age"].int64_list.value.extend([41, -2])
    features["score"].float_list.value.append(0.5)
    features["movie"].bytes_list.value.append("The Shawshank Rédemption".encode())
    features["image"].bytes_list.value.append(encoded(noise(5, 7)))
    features["raw"].bytes_list.value.append(b"\x00\xff\x10")
    features["nothing"].SetInParent()
    write_tfrecord(tmp_path / "x", [example.SerializeToString(), ints(age=[1], more=[7])])
    result = head("x")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "x: tf.train.Example"
    assert lines[1].split() == ["record", "0", "record", "1"]
    rows = rows_of(result.stdout)
    assert rows["age"] == ["int64 [1 to 2]", "41, -2", "1"]
    assert rows["more"] == ["int64", "missing", "7"]
    assert rows["score"] == ["float", "0.5", "missing"]
    assert rows["movie"] == ["bytes", "'The Shawshank Rédemption'", "missing"]
    assert rows["image"][1].startswith("PNG 7x5 (")
    assert rows["raw"] == ["bytes", "00 ff 10 (3 bytes)", "missing"]
    assert rows["nothing"] == ["none", "no values", "missing"]


def test_arrays_and_strings_are_cut_and_counted(head: Head, tmp_path: Path) -> None:
    example = Example()
    example.features.feature["array"].int64_list.value.extend(range(1000))
    example.features.feature["text"].bytes_list.value.append(b"word " * 300)
    write_tfrecord(tmp_path / "x", [example.SerializeToString()])
    rows = rows_of(head("x").stdout)
    kind, cell = rows["array"]
    assert kind == "int64 [1,000]"
    assert cell.startswith("0, 1, 2, 3")
    assert cell.endswith("… (1,000)")
    assert rows["text"][1].endswith("…' (1,500 bytes)")


def test_info_is_another_name(head: Head, tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "x", [ints(a=[1])])
    assert CliRunner().invoke(app, ["info", "x"]).stdout == head("x").stdout


def test_names_are_in_natural_order(head: Head, tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "x", [ints(c10=[1], c2=[1], c1=[1])])
    names = [line.split()[0] for line in head("x").stdout.splitlines()[4:]]
    assert names == ["c1", "c2", "c10"]


@pytest.mark.parametrize("width", [50, 80, 200])
def test_the_table_is_as_wide_as_columns_says(
    head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    example = Example()
    for name in ("a" * 60 + "1", "a" * 60 + "2"):
        example.features.feature[name].bytes_list.value.append("日本語のテキスト".encode() * 20)
    write_tfrecord(tmp_path / "x", [example.SerializeToString()] * 5)
    monkeypatch.setenv("COLUMNS", str(width))
    output = head("x").stdout
    # Japanese characters take two cells.
    assert (
        max(len(line) + sum(ord(c) > 0x3000 for c in line) for line in output.splitlines()) <= width
    )
    # A long name takes several lines.
    assert "a1 " in output
    fit = output.count("record ")
    assert fit == {50: 1, 80: 1, 200: 5}[width]
    assert ("of 5 records fit: -n 5 shows them all" in output) == (fit < 5)
    assert head("x", "-n", 5).stdout.count("record ") == 5


# ---- which records, which file ----


def test_only_the_first_records_are_read(head: Head, tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "x", [b"plain text %d" % i for i in range(9)])
    shown = head("x", "-n", 2).stdout
    assert "x: plain text\n" in shown
    assert "plain text 1" in shown
    assert "plain text 2" not in shown
    # Later damage does not matter, nor does the rest of a compressed file.
    whole = gzip.compress(frame(b"first") + frame(os.urandom(1 << 22)) * 3)
    (tmp_path / "z").write_bytes(whole[: len(whole) // 2])
    result = head("z", "-n", 1)
    assert (result.exit_code, "first" in result.stdout) == (0, True)


def test_a_range_of_records(head: Head, tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "x", [ints(n=[i]) for i in range(20)], "gzip")
    result = head("x", "--records", "11:13")
    assert rows_of(result.stdout)["n"] == ["int64", "11", "12"]
    assert "record 11" in result.stdout
    assert "no record 20: the file has fewer records" in head("x", "-n", "20:30").stdout


@pytest.mark.parametrize("text", ["0", "-1", "5:5", "7:3", "a", "1:2:3", ""])
def test_a_range_that_is_none_is_a_usage_error(head: Head, tmp_path: Path, text: str) -> None:
    write_tfrecord(tmp_path / "x", [b""])
    result = head("x", f"--records={text}")
    if text:
        assert result.exit_code == 2
        assert "--records must be N or START:STOP with START < STOP" in result.stderr


def test_the_first_of_several_files_is_shown(head: Head, tmp_path: Path) -> None:
    for number in range(3):
        write_tfrecord(tmp_path / f"part-{number}", [b"text of file %d" % number])
    shown = head("part-*").stdout
    assert "part-0 (file 0 of 3): plain text" in shown
    assert "text of file 0" in shown
    assert "text of file 1" not in shown
    shown = head("part-*", "--file", 2).stdout
    assert "part-2 (file 2 of 3): plain text" in shown
    assert "text of file 2" in shown
    result = head("part-*", "--file", 3)
    assert result.exit_code == 2
    assert "--file must be less than 3, the number of files" in result.stderr


# ---- kinds of records ----


def test_sequences_and_empty_records(head: Head, tmp_path: Path) -> None:
    sequence = SequenceExample()
    sequence.context.feature["length"].int64_list.value.append(2)
    steps = sequence.feature_lists.feature_list["tokens"].feature
    steps.add().int64_list.value.append(7)
    steps.add().int64_list.value.extend([8, 9])
    write_tfrecord(tmp_path / "x", [sequence.SerializeToString(), b""])
    shown = head("x").stdout
    assert "x: tf.train.SequenceExample" in shown
    assert "0 bytes" in shown
    assert rows_of(shown.replace("  tokens", "tokens"))["tokens"] == [
        "int64 [2 steps]",
        "7, [8, 9]",
    ]


def test_lists_of_examples(head: Head, tmp_path: Path) -> None:
    ranking = ExampleListWithContext()
    ranking.context.features.feature["query"].bytes_list.value.append(b"what?")
    for relevance in (1, 0, 2):
        features = ranking.examples.add().features.feature
        features["relevance"].int64_list.value.append(relevance)
    ranking.examples.add().features.feature["score"].float_list.value.append(0.5)
    write_tfrecord(tmp_path / "x", [ranking.SerializeToString()])
    shown = head("x").stdout
    assert "x: ExampleListWithContext (ELWC)" in shown
    assert "4 examples" in shown
    assert "1, 0, 2, missing" in shown


def test_empty_files_and_empty_records_are_named(head: Head, tmp_path: Path) -> None:
    (tmp_path / "nothing").touch()
    result = head("nothing")
    assert (result.exit_code, result.stdout) == (0, "nothing: empty file (0 bytes)\n")
    (tmp_path / "z").write_bytes(gzip.compress(b""))
    assert head("z").stdout == "z: no records\n"
    write_tfrecord(tmp_path / "x", [b"", b""])
    assert "x: empty records" in head("x").stdout


def test_records_of_different_kinds(head: Head, tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "x", [ints(a=[1]), b"some text", ints(a=[2])])
    shown = head("x").stdout
    assert "x: records of 2 kinds" in shown
    assert rows_of(shown)["a"] == ["int64", "1", "2"]
    assert "'some text'" in shown


@pytest.mark.slow
def test_real_files_fit_and_are_named(
    wild: Any, head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for entry in wild.manifest["files"]:
        result = head(wild.path / entry["path"])
        assert result.exit_code == 0, result.stderr
        lines = result.stdout.splitlines()
        # The first line names the file and is not cut.
        assert max(map(len, lines[1:]), default=0) <= 80
        # A long name takes two lines.
        assert len(lines) <= 1 + 3 + 2 * max(len(entry.get("features", {})), 20) + 4


# ---- damage ----


def test_damage_is_reported_after_the_valid_records(head: Head, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(frame(b"good one") + b"\0" * 30)
    result = head("x")
    assert result.exit_code == 1
    assert "good one" in result.stdout
    assert (
        "x: the record's length does not match its checksum (record 1, offset 24)" in result.stderr
    )


def test_damaged_records_are_named_and_those_after_them_are_shown(
    head: Head, tmp_path: Path
) -> None:
    frames = [bytearray(frame(ints(n=[i]))) for i in range(3)]
    frames[1][14] ^= 1
    (tmp_path / "x").write_bytes(b"".join(frames))
    result = head("x")
    assert result.exit_code == 1
    assert rows_of(result.stdout)["n"] == ["int64", "0", "2"]
    titles = rows_of(result.stdout)["feature"]
    assert titles == ["type", "14 bytes", "damaged", "14 bytes"]
    assert result.stderr.startswith("x: ")
    assert "(record 1, offset" in result.stderr
    (tmp_path / "y").write_bytes(bytes(frames[1]))
    assert "y: damaged record\n" in head("y").stdout


def test_control_characters_are_escaped(head: Head, tmp_path: Path) -> None:
    example = Example()
    example.features.feature["\x1b[31mname\x07"].bytes_list.value.append(b"\x1b[31mred\x07")
    name = "\x1b]0;title\x07x"
    write_tfrecord(tmp_path / name, [example.SerializeToString(), b"\x1b[31mred\x07" * 3])
    for arguments in ([], ["--json"]):
        assert "\x1b" not in head(".", *arguments).stdout


# ---- JSON ----


def test_json_has_a_line_with_all_values_for_each_record(head: Head, tmp_path: Path) -> None:
    example = Example()
    features = example.features.feature
    features["ids"].int64_list.value.extend(range(1000))
    features["odd"].float_list.value.extend([0.5, float("nan"), float("-inf")])
    features["raw"].bytes_list.value.extend([b"text", b"\xff\0"])
    sequence = SequenceExample()
    steps = sequence.feature_lists.feature_list["x"].feature
    steps.add().int64_list.value.extend([1, 2])
    steps.add().int64_list.value.append(3)
    first, second = example.SerializeToString(), sequence.SerializeToString()
    write_tfrecord(tmp_path / "x", [first, second, "ümlaut".encode(), b"\xff"])
    lines = [json.loads(line) for line in head("x", "--json").stdout.splitlines()]
    assert lines[0]["kind"] == "tf.train.Example"
    assert lines[0]["features"] == {
        "ids": {"type": "int64", "values": list(range(1000))},
        "odd": {"type": "float", "values": [0.5, "NaN", "-Infinity"]},
        "raw": {"type": "bytes", "values": ["text", {"base64": "/wA="}]},
    }
    assert lines[1]["feature_lists"] == {"x": {"type": "int64", "steps": [[1, 2], [3]]}}
    place = {"file": "x", "record": 2, "offset": len(first) + len(second) + 32, "bytes": 7}
    assert lines[2] == {**place, "kind": "plain text", "text": "ümlaut"}
    assert lines[3]["base64"] == "/w=="


def test_json_names_damaged_records(head: Head, tmp_path: Path) -> None:
    frames = [bytearray(frame(b"text %d" % i)) for i in range(600)]
    frames[300][14] ^= 1
    (tmp_path / "x").write_bytes(b"".join(frames) + b"\0" * 5)
    result = head("x", "--json", "-n", 1000)
    assert result.exit_code == 1
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["record"] for line in lines] == list(range(600))
    assert [line["record"] for line in lines if "error" in line] == [300]
    assert lines[599]["text"] == "text 599"
    assert "record 300" in result.stderr
    assert "record 600" in result.stderr
