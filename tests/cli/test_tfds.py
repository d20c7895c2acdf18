"""The command ``torchrec-io tfds``."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run
from tests.conftest import TESTS
from tests.support.tfds import (
    features_dict,
    image,
    label,
    numbered,
    sequence,
    shard_path,
    tensor,
    text,
    write_shard,
    write_tfds,
)

GOLDEN = TESTS / "data" / "tfds"


def test_output_of_the_command(run: Run, tmp_path: Path) -> None:
    features = features_dict(
        label=label(2),
        pictures=sequence(image(-1, 28, 3)),
        deep=features_dict(words=sequence(sequence(text()), 4)),
        own={"pythonClassName": "mine.Own"},
        packed=tensor([3, -1], "float32", encoding="zlib", optional=True),
    )
    folder = tmp_path / "set" / "1.0.0"
    write_tfds(folder, {}, features, configName="", supervisedKeys={"input": "a", "output": "b"})
    (folder / "label.labels.txt").write_text("cat\ndog\n")
    write_tfds(tmp_path / "set" / "0.9.0", {"train": [numbered(1)]})
    result = run("tfds", "set")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[:3] == [
        "data 1.0.0: set/1.0.0",
        "  other versions: 0.9.0",
        "  supervised keys: ('a', 'b')",
    ]
    cells = [" ".join(line.split()) for line in lines]
    for row in (
        "label ClassLabel int64 2 [cat, dog]",
        "pictures Image uint8 [?] [?, 28, 3]",
        "deep/words Text string [4, ?]",
        "packed Tensor float32 [3, ?] zlib True",
    ):
        assert row in cells
    assert cells[-1].startswith("feature own CANNOT BE READ: mine.Own is not a connector of TFDS")


def test_one_of_several_configs(run: Run) -> None:
    listed = run("tfds", GOLDEN / "configs")
    assert listed.returncode == 0, listed.stderr
    assert "config small: 1.0.0, 1.9.0, 1.10.0" in listed.stdout
    shown = run("tfds", GOLDEN / "configs", "--config", "small", "--version", "1.9.0")
    assert shown.returncode == 0, shown.stderr
    assert "configs small 1.9.0: " in shown.stdout
    assert "  config large: 2.0.0\n  other versions: 1.0.0, 1.10.0\n" in shown.stdout
    assert shown.stdout.splitlines()[-1].split() == ["train", "1", "1", "1", "50", "0", "0", "True"]
    wrong = run("tfds", GOLDEN / "configs", "--config", "tiny")
    assert wrong.returncode == 2
    assert "config must be one of 'large', 'small', got 'tiny'" in " ".join(wrong.stderr.split())


def test_wrong_shards(run: Run, tmp_path: Path) -> None:
    write_tfds(tmp_path, {"train": [numbered(n, n) for n in range(4)], "test": [numbered(9)]})
    write_shard(shard_path(tmp_path, "train", 0, 4), numbered(1))
    shard_path(tmp_path, "train", 1, 4).unlink()
    cut = shard_path(tmp_path, "train", 2, 4)
    cut.write_bytes(cut.read_bytes()[:-2])
    write_shard(shard_path(tmp_path, "test", 0, 1), [b""])
    result = run("tfds", ".")
    assert result.returncode == 1
    assert "has 1 record, but dataset_info.json says 2" in result.stderr
    assert "00001-of-00004: No such file or directory" in result.stderr
    assert "past the end of the file" in result.stderr or "ends inside" in result.stderr
    assert "the file may be a shard of another dataset" in result.stderr
    [titles, _, train, test] = [line.split() for line in result.stdout.splitlines()[-4:]]
    assert titles[:4] == ["name", "shards", "records", "expected"]
    assert train[:4] == ["train", "4", "2", "8"]
    assert train[-3:] == ["1", "2", "False"]
    assert test[:4] == ["test", "1", "0", "1"]
    assert test[-3:] == ["0", "1", "False"]


def test_directory_with_invalid_metadata(run: Run, tmp_path: Path) -> None:
    write_tfds(tmp_path, {"train": [numbered(1)]}, fileFormat="parquet")
    result = run("tfds", ".")
    assert result.returncode == 1
    assert (
        "dataset_info.json: fileFormat: the format must be 'tfrecord', got 'parquet'"
        in result.stderr
    )
