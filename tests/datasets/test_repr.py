"""What datasets and loaders say about themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import torchrec_io as tio
from tests.support.datasets import SCHEMA, open_records, write_files

SIZES = [600, 400]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    def set_rank(rank: str, world_size: str) -> None:
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", world_size)

    return set_rank


def test_files_records_and_changed_options(paths: list[str]) -> None:
    dataset = open_records(paths, batch_size=100, shuffle=True, seed=7)
    files = f"2 files, first {paths[0]!r}"
    assert repr(dataset) == (
        f"TFRecordDataset({files}, 1,000 records, 3 features, batch_size=100, shuffle=True, "
        "seed=7, epoch 0)"
    )
    dataset.set_epoch(3)
    assert repr(dataset).endswith("seed=7, epoch 3)")
    raw = tio.TFRecordDataset(paths[0], split="[:10%]", epochs=None, on_error=repr)
    assert repr(raw) == (
        f"TFRecordDataset({paths[0]!r}, 60 of 600 records, bytes, epochs=None, split='[:10%]', "
        "on_error=repr, epoch 0)"
    )
    # No option of the files or the schema is repeated.
    assert repr(tio.TFRecordDataset(paths, len)) == (
        f"TFRecordDataset({files}, 1,000 records, schema=len, epoch 0)"
    )


def test_other_classes(tmp_path: Path, paths: list[str]) -> None:
    files = f"2 files, first {paths[0]!r}"
    assert repr(tio.TFRecordStream(paths, SCHEMA, shuffle=10)) == (
        f"TFRecordStream({files}, 3 features, shuffle=10, epoch 0)"
    )
    assert repr(tio.TFRecordMapDataset(paths, SCHEMA, with_key=True)) == (
        f"TFRecordMapDataset({files}, 1,000 records, 3 features, with_key=True)"
    )
    lines = tmp_path / "lines"
    lines.write_text("a\nb\n")
    assert repr(tio.TextLineDataset(lines)) == (
        f"TextLineDataset({str(lines)!r}, 2 records, bytes, epoch 0)"
    )
    parts = [open_records(path, shuffle=True) for path in paths]
    assert repr(tio.mix(parts, weights=[1, 2], stop="endless", batch_size=10)) == (
        f"MixedDataset({files}, endless, 3 features, weights=[1.0, 2.0], stop='endless', "
        "batch_size=10, epoch 0)"
    )


def test_share_of_a_rank_and_its_source(paths: list[str], at: Callable[[str, str], None]) -> None:
    dataset = open_records(paths, batch_size=100)
    assert "rank " not in repr(dataset)
    at("1", "2")
    share = "rank 1 of 2 (of torchrun's environment)"
    assert repr(dataset).endswith(f", epoch 0, {share})")
    loader = tio.make_loader(dataset)
    assert f"share: {share}" in loader.describe().splitlines()
    # Evaluation by one rank.
    alone = dataset.replace(rank=0, world_size=1)
    assert "rank " not in repr(alone)
    assert "share" not in tio.make_loader(alone).describe()
    given = dataset.replace(rank=2, world_size=3, uneven="pad")
    assert repr(given).endswith("rank 2 of 3 (as given))")


def test_a_rank_that_is_not_valid(paths: list[str], at: Callable[[str, str], None]) -> None:
    dataset = open_records(paths)
    at("no number", "3")
    assert "unknown rank" in repr(dataset)


def test_nothing_is_read(tmp_path: Path) -> None:
    paths = write_files(tmp_path, [3, 3])
    datasets = [open_records(paths), open_records(paths, stream=True)]
    before = [repr(dataset) for dataset in datasets]
    for path in paths:
        Path(path).unlink()
    assert [repr(dataset) for dataset in datasets] == before


def test_loaders(paths: list[str]) -> None:
    dataset = open_records(paths, batch_size=100)
    assert repr(tio.make_loader(dataset)) == f"Loader({dataset!r}, num_workers=0)"
    assert repr(tio.make_loader(dataset, num_workers=2, device="cpu")) == (
        f"Loader({dataset!r}, num_workers=2, device='cpu')"
    )
    assert repr(tio.DevicePrefetcher(dataset, "cpu")) == (
        f"DevicePrefetcher({dataset!r}, device='cpu', depth=2)"
    )
