"""Callbacks for the Trainer of transformers. tests/trainers has them in real training runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.datasets import open_records, write_files


def ids(loader: Any) -> list[list[int]]:
    return [batch["id"].tolist() for batch in loader]


def begin(loader: Any, step: int, *, ignore: bool = True, batches: int = 1) -> None:
    """Begin a training after a step."""
    arguments: Any = SimpleNamespace(ignore_data_skip=ignore, gradient_accumulation_steps=batches)
    state: Any = SimpleNamespace(global_step=step)
    callback = tio.integrations.transformers.ResumeLoader()
    callback.on_train_begin(arguments, state, None, train_dataloader=loader)


@pytest.mark.parametrize(
    ("step", "batches", "place"),
    [
        (0, 1, (0, 0)),
        (2, 1, (0, 2)),
        (5, 1, (1, 0)),
        (8, 1, (1, 3)),
        (2, 2, (0, 4)),
        (4, 2, (1, 2)),
    ],
)
@pytest.mark.parametrize("workers", [0, 2])
def test_the_position_follows_from_the_steps(
    step: int, batches: int, place: tuple[int, int], workers: int, tmp_path: Path
) -> None:
    epoch, used = place
    dataset = open_records(write_files(tmp_path, [50]), shuffle=True, batch_size=10)
    other = dataset.replace()
    other.set_epoch(epoch)
    loader = tio.make_loader(dataset, num_workers=workers)
    begin(loader, step, batches=batches)
    assert ids(loader) == ids(other)[used:]


def test_an_endless_dataset(tmp_path: Path) -> None:
    dataset = open_records(write_files(tmp_path, [50]), batch_size=10, epochs=None)
    loader = tio.make_loader(dataset)
    begin(loader, 3)
    assert next(iter(loader))["id"].tolist() == list(range(30, 40))


def test_the_trainer_must_not_skip(tmp_path: Path) -> None:
    loader = tio.make_loader(open_records(write_files(tmp_path, [50]), batch_size=10))
    begin(loader, 0, ignore=False)
    with pytest.raises(ValueError, match="ignore_data_skip must be True with ResumeLoader"):
        begin(loader, 1, ignore=False)


def test_other_loaders_are_left_alone() -> None:
    begin([1, 2], 3, ignore=False)
