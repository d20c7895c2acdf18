"""Conversions in tasks give the files of one machine."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import torchrec_io as tio
from tests.cluster.local_ray import LocalRay
from tests.cluster.test_resharding import Stop, contents
from torchrec_io.cluster import spills, tasks

ROWS = [{"x": i, "y": i / 2, "name": "n" * (i % 40), "more": [1, 2]} for i in range(60)]


def write_csv(folder: Path) -> list[Path]:
    paths = [folder / f"in{number}.csv" for number in range(2)]
    for number, path in enumerate(paths):
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["x", "y", "name"])
            rows = ROWS[30 * number : 30 * number + 30]
            writer.writerows([row["x"], row["y"], row["name"]] for row in rows)
            writer.writerow([1, "one field less"])
    return paths


def write_jsonl(folder: Path) -> list[Path]:
    paths = [folder / f"in{number}.jsonl" for number in range(2)]
    for number, path in enumerate(paths):
        rows = ROWS[30 * number : 30 * number + 30]
        path.write_text("\n".join(map(json.dumps, rows)) + "\nno JSON\n")
    return paths


def write_npz(folder: Path) -> list[Path]:
    paths = [folder / f"in{number}.npz" for number in range(2)]
    for number, path in enumerate(paths):
        np.savez(path, x=np.arange(30) + 30 * number, y=np.ones((30, 2), np.float32))
    return paths


def write_parquet(folder: Path) -> list[Path]:
    paths = [folder / f"in{number}.parquet" for number in range(2)]
    for number, path in enumerate(paths):
        rows = [dict(row) for row in ROWS[30 * number : 30 * number + 30]]
        rows[7]["more"] = [1, None]
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=9)
    return paths


def write_images(folder: Path) -> str:
    source = folder / "images"
    for number in range(24):
        path = source / "abc"[number % 3] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4 + number, 5), (number, 0, 0)).save(path)
    (source / "a" / "bad.png").write_bytes(b"no image")
    return str(source)


KINDS: dict[str, Callable[[Path], Any]] = {
    "csv": write_csv,
    "jsonl": write_jsonl,
    "npz": write_npz,
    "parquet": write_parquet,
    "images": write_images,
}


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"num_shards": 4}, {"max_bytes": 700}])
def test_files_are_those_of_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(tasks, "TASK_BYTES", 1500)
    monkeypatch.setattr(spills, "RUN_BYTES", 800)
    monkeypatch.setattr("torchrec_io.convert.image_import._PART_IMAGES", 5)
    sources = KINDS[kind](tmp_path)
    found, wanted = (
        getattr(room, f"from_{kind}")(sources, tmp_path / name, on_error="skip", **options)
        for room, name in ((tio.cluster, "ray"), (tio.convert, "one"))
    )
    for name in ("ray", "one"):
        labels = tmp_path / f"{name}.labels.txt"
        if kind == "images":
            labels.rename(tmp_path / f"labels of {name}")
    assert contents(tmp_path, "ray") == contents(tmp_path, "one")
    assert (found.counts, found.schema) == (wanted.counts, wanted.schema)
    assert (found.skipped, found.file_bytes) == (wanted.skipped, wanted.file_bytes)
    assert list(map(str, found.errors)) == list(map(str, wanted.errors))
    if kind == "images":
        assert (tmp_path / "labels of ray").read_text() == "a\nb\nc\n"


def test_a_conversion_continues_where_it_was(
    tmp_path: Path, local_ray: LocalRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "TASK_BYTES", 1)
    sources = write_npz(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        tio.cluster.from_npz(sources, tmp_path / "ray", num_shards=3, watcher=Stop(4))
    assert not list(tmp_path.glob("ray*"))
    before = len(local_ray.sent)
    result = tio.cluster.from_npz(sources, tmp_path / "ray", num_shards=3)
    assert len(local_ray.sent) == 5  # 2 of the first pass, 3 of the second
    assert before >= 3
    assert result.counts == (20, 20, 20)
    tio.convert.from_npz(sources, tmp_path / "one", num_shards=3)
    assert contents(tmp_path, "ray") == contents(tmp_path, "one")


def write_labels(path: Path, shift: int) -> Path:
    rows = [f"{'abc'[number % 3]}/{number}.png,{number % 2 + shift}" for number in range(24)]
    path.write_text("\n".join(["name,label", *rows]) + "\n")
    return path


def replace_image(folder: Path) -> None:
    """Replace an image by another of the same size."""
    path = folder / "images" / "b" / "4.png"
    content = path.read_bytes()
    Image.new("RGB", (8, 5), (99, 0, 0)).save(path)
    assert len(path.read_bytes()) == len(content)
    assert path.read_bytes() != content


CHANGES: dict[str, Callable[[Path], object]] = {
    "labels": lambda folder: write_labels(folder / "labels.csv", 1),
    "image": replace_image,
}


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("steps", [3, 7])
def test_images_that_change_before_a_restart_are_converted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, steps: int
) -> None:
    monkeypatch.setattr(tasks, "TASK_BYTES", 1)
    monkeypatch.setattr("torchrec_io.convert.image_import._PART_IMAGES", 6)
    source = write_images(tmp_path)
    labels = write_labels(tmp_path / "labels.csv", 0)
    options: Any = {"labels": labels, "num_shards": 4, "on_error": "skip"}
    with pytest.raises(KeyboardInterrupt):
        tio.cluster.from_images(source, tmp_path / "ray", watcher=Stop(steps), **options)
    CHANGES[change](tmp_path)
    tio.cluster.from_images(source, tmp_path / "ray", **options)
    tio.convert.from_images(source, tmp_path / "one", **options)
    texts = [(tmp_path / f"{name}.labels.txt") for name in ("ray", "one")]
    assert texts[0].read_text() == texts[1].read_text()
    for path in texts:
        path.unlink()
    for path in tmp_path.glob(".ray-parts-*"):  # of the other labels
        assert change == "labels"
        shutil.rmtree(path, ignore_errors=True)
    assert contents(tmp_path, "ray") == contents(tmp_path, "one")


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("change", CHANGES)
def test_outputs_of_other_images_are_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    source = write_images(tmp_path)
    labels = write_labels(tmp_path / "labels.csv", 0)
    options: Any = {"labels": labels, "num_shards": 2, "on_error": "skip"}
    with monkeypatch.context() as patch:  # as a process does that is killed at the end
        patch.setattr("torchrec_io.cluster.parts.remove_folder", lambda *_: None)
        tio.cluster.from_images(source, tmp_path / "ray", **options)
    CHANGES[change](tmp_path)
    with pytest.raises(FileExistsError):
        tio.cluster.from_images(source, tmp_path / "ray", **options)
    tio.cluster.from_images(source, tmp_path / "ray", force=True, **options)
    tio.convert.from_images(source, tmp_path / "one", **options)
    for shard in range(2):
        name = f"{shard:05d}-of-00002"
        assert (tmp_path / f"ray-{name}").read_bytes() == (tmp_path / f"one-{name}").read_bytes()


@pytest.mark.usefixtures("local_ray")
def test_long_patterns_of_labels_differ(tmp_path: Path) -> None:
    """The text form of a compiled pattern has only its first 200 characters."""
    source = write_images(tmp_path)
    start = "(?:x" + "y" * 300 + ")?"
    first, second = (re.compile(f"{start}{end}") for end in (r"(\d)", r"(\d+)"))
    options: Any = {"on_error": "skip", "num_shards": 2}
    with pytest.raises(KeyboardInterrupt):
        tio.cluster.from_images(
            source, tmp_path / "ray", label_pattern=first, watcher=Stop(2), **options
        )
    [before] = tmp_path.glob(".ray-parts-*")
    with pytest.raises(KeyboardInterrupt):
        tio.cluster.from_images(
            source, tmp_path / "ray", label_pattern=second, watcher=Stop(2), **options
        )
    assert {*tmp_path.glob(".ray-parts-*")} > {before}


@pytest.mark.usefixtures("local_ray")
def test_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = write_jsonl(tmp_path)
    convert = tio.cluster.from_jsonl
    with pytest.raises(tio.ConversionError, match="line 31: invalid JSON"):
        convert(sources, tmp_path / "ray")
    with pytest.raises(tio.ConversionError, match="line 31: invalid JSON"):
        types = {"x": "int64", "y": "float32", "name": "string", "more": "int64"}
        convert(sources, tmp_path / "ray", types=types)
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(tio.ConversionError, match="there is no record to write"):
        convert(tmp_path / "empty.jsonl", tmp_path / "ray")
    with pytest.raises(ValueError, match="jobs cannot be used"):
        convert(sources, tmp_path / "ray", jobs=2)
    with pytest.raises(TypeError, match="unknown option 'shards'"):
        convert(sources, tmp_path / "ray", shards=2)  # type: ignore[call-arg]
    assert not list(tmp_path.glob("ray*"))
    monkeypatch.chdir(tmp_path)
    convert([path.name for path in sources], "ray", on_error="skip")
    assert len(list(tio.TFRecordDataset("ray.tfrecord"))) == 60
    with pytest.raises(FileExistsError):
        convert(sources, tmp_path / "ray")
    convert(sources, tmp_path / "ray", on_error="skip", force=True)
