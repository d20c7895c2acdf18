"""Expansion of names, patterns and directories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from torchrec_io._storage.location import Location
from torchrec_io._storage.paths import expand_paths


def test_paths(tmp_path: Path) -> None:
    for name in (
        "b.tfrecord", "a.tfrecord", "a.tfrecord.tfidx", "c.tfrecords.gz", "part-r-00000",
        "_SUCCESS", ".hidden.tfrecord", "notes.txt", "dataset_info.json", "a.tfrecord.idx",
    ):  # fmt: skip
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "odd[1].bin").write_bytes(b"")

    def names(paths: object) -> list[str]:
        return [os.path.basename(path) for path in expand_paths(paths)]  # type: ignore[arg-type]

    assert names(tmp_path) == ["a.tfrecord", "b.tfrecord", "c.tfrecords.gz", "part-r-00000"]
    assert names(tmp_path / "*.tfrecord*") == [
        "a.tfrecord", "a.tfrecord.idx", "b.tfrecord", "c.tfrecords.gz",
    ]  # fmt: skip
    assert names([tmp_path / "b.tfrecord", str(tmp_path / "a.tfrecord")]) == [
        "b.tfrecord", "a.tfrecord",
    ]  # fmt: skip
    assert names(tmp_path / "odd[1].bin") == ["odd[1].bin"]


def test_names_of_tfrecord_files(tmp_path: Path) -> None:
    data = [
        "a.record", "b.records", "c.tfrec", "d.tfrecs", "e.tfr", "f.recordio", "g.TFRecord",
        "i.record.gz", "j.tfrecords.zz", "l.tfrecord.1",
    ]  # fmt: skip
    others = [
        "m.record.json",
        "n.records.TXT",
        "o.recording",
        "p.tar",
        "q.rec",
        "record",
        "r.tfidx",
    ]
    for name in data + others:
        (tmp_path / name).touch()
    assert [os.path.basename(path) for path in expand_paths(tmp_path)] == data
    for name in ("h.tfrecord-00000-of-00001", "k-000000-of-000001"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
        assert expand_paths(tmp_path / name) == [Location.of(tmp_path / name / name)]


def test_paths_that_match_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file: .*missing"):
        expand_paths(tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match="matches no file"):
        expand_paths(tmp_path / "*.tfrecord")
    with pytest.raises(FileNotFoundError, match="use a pattern"):
        expand_paths(tmp_path)
    with pytest.raises(ValueError, match="paths is empty"):
        expand_paths([])
    with pytest.raises(FileNotFoundError, match=r"a URL must be a str, not a pathlib.Path"):
        expand_paths(Path("gs://bucket/x.tfrecord"))
