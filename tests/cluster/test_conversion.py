"""Conversions in tasks give the files of one machine."""

from __future__ import annotations

import csv
import json
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
    monkeypatch.setattr("torchrec_io.convert.parquet_import._PART_BYTES", 300)
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
