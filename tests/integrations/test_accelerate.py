"""The duties of Accelerate's own loaders, which ``make_loader`` has without ``prepare``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState

import torchrec_io as tio
from tests.support.datasets import write_files

SCHEMA = {"id": tio.FixedLenFeature([], "int64")}


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return write_files(tmp_path, [30, 25])


@pytest.fixture
def accelerator() -> Iterator[Accelerator]:
    yield Accelerator(cpu=True, gradient_accumulation_steps=4)
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def steps(accelerator: Accelerator, loader: Any) -> list[int]:
    """Return the numbers of the batches after which gradients are applied."""
    found = []
    for number, _ in enumerate(loader):
        with accelerator.accumulate(torch.nn.Linear(1, 1)):
            if accelerator.sync_gradients:
                found.append(number)
    return found


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("is_prepared", [False, True])
@pytest.mark.parametrize("kind", ["records", "by number"])
def test_gradients_of_the_last_batches_are_applied(
    paths: list[str],
    accelerator: Accelerator,
    kind: str,
    is_prepared: bool,
    workers: int,
) -> None:
    own: Any = tio.TFRecordDataset if kind == "records" else tio.TFRecordMapDataset
    loader: Any = tio.make_loader(own(paths, SCHEMA), batch_size=5, num_workers=workers)
    if is_prepared:
        loader = accelerator.prepare(loader)
    for _ in range(2):  # epochs
        assert steps(accelerator, loader) == [3, 7, 10]
        assert not GradientState().in_dataloader
    numbers: Any = torch.arange(55)
    of_torch = torch.utils.data.DataLoader(numbers, batch_size=5)
    assert steps(accelerator, accelerator.prepare(of_torch)) == [3, 7, 10]


def test_an_evaluation_inside_an_epoch(paths: list[str], accelerator: Accelerator) -> None:
    """The end of the inner loop is not that of the outer one."""
    training = tio.make_loader(tio.TFRecordDataset(paths, SCHEMA, batch_size=5))
    testing = tio.make_loader(tio.TFRecordDataset(paths[:1], SCHEMA, batch_size=5))
    ends = []
    for number, _ in enumerate(training):
        if number == 2:
            assert len(list(testing)) == 6
        ends.append(accelerator.gradient_state.end_of_dataloader)
    assert ends == [False] * 10 + [True]


def test_a_loop_that_is_left(paths: list[str], accelerator: Accelerator) -> None:
    items = iter(tio.make_loader(tio.TFRecordDataset(paths, SCHEMA, batch_size=5)))
    next(items)
    assert accelerator.gradient_state.in_dataloader
    del items
    assert not accelerator.gradient_state.in_dataloader
