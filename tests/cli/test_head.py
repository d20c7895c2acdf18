"""The command ``torchrec-io head``."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

from PIL import Image

from tests.cli.conftest import Run
from tests.support.messages import Example, SequenceExample
from tests.support.tfrecord import frame, write_tfrecord


def test_shows_features_kinds_counts_and_values(run: Run, tmp_path: Path) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (7, 5)).save(picture, "PNG")
    example = Example()
    features = example.features.feature
    features["age"].int64_list.value.extend([41, -2])
    features["score"].float_list.value.append(0.5)
    features["movie"].bytes_list.value.append("The Shawshank Rédemption".encode())
    features["image"].bytes_list.value.append(picture.getvalue())
    features["raw"].bytes_list.value.append(b"\x00\xff\x10")
    features["nothing"].SetInParent()
    write_tfrecord(tmp_path / "x", [example.SerializeToString()])
    result = run("head", "x")
    assert result.returncode == 0, result.stderr
    rows = {
        line.split()[0]: " ".join(line.split()[1:])
        for line in result.stdout.splitlines()
        if line.strip()
    }
    assert rows["age"] == "int64 2 41, -2"
    assert rows["score"] == "float 1 0.5"
    assert "The Shawshank Rédemption" in rows["movie"]
    assert "PNG 7x5" in rows["image"]
    assert "00 ff 10" in rows["raw"]
    assert rows["nothing"].startswith("none 0")
    assert "record 0 at offset 0" in result.stdout


def test_only_the_first_records_are_read(run: Run, tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "x", [b"plain text %d" % i for i in range(9)])
    shown = run("head", "x", "-n", 2).stdout
    assert "plain text 1" in shown
    assert "plain text 2" not in shown
    assert shown.count("not a tf.train.Example") == 2
    # Later damage does not matter, nor does the rest of a compressed file.
    whole = gzip.compress(frame(b"first") + frame(os.urandom(1 << 22)) * 3)
    (tmp_path / "z").write_bytes(whole[: len(whole) // 2])
    result = run("head", "z", "-n", 1)
    assert (result.returncode, "first" in result.stdout) == (0, True)


def test_sequences_and_empty_records(run: Run, tmp_path: Path) -> None:
    sequence = SequenceExample()
    sequence.context.feature["length"].int64_list.value.append(2)
    steps = sequence.feature_lists.feature_list["tokens"].feature
    steps.add().int64_list.value.append(7)
    steps.add().int64_list.value.append(8)
    write_tfrecord(tmp_path / "x", [sequence.SerializeToString(), b""])
    shown = run("head", "x").stdout
    assert "2 steps" in shown
    assert "[7], [8]" in shown
    assert "0 bytes, empty" in shown


def test_damage_is_reported_after_the_valid_records(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(frame(b"good one") + b"\0" * 30)
    result = run("head", "x")
    assert result.returncode == 1
    assert "good one" in result.stdout
    assert (
        "x: the record's length does not match its checksum (record 1, offset 24)" in result.stderr
    )


def test_control_characters_are_escaped(run: Run, tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "x", [b"\x1b[31mred\x07" * 3])
    assert "\x1b" not in run("head", "x").stdout
