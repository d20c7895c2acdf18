"""The duties of Accelerate's own loaders, which ``make_loader`` has without ``prepare``."""

from __future__ import annotations

import itertools
import logging
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


@pytest.mark.parametrize(("kind", "context"), [("records", "fork"), ("by number", "forkserver")])
def test_workers_make_dicts(
    paths: list[str], accelerator: Accelerator, kind: str, context: str
) -> None:
    """A worker of a fork server has no ``Accelerator``, which splits dicts of Tensors."""
    del accelerator
    own: Any = tio.TFRecordDataset if kind == "records" else tio.TFRecordMapDataset
    loader: Any = torch.utils.data.DataLoader(
        own(paths, SCHEMA), batch_size=11, num_workers=1, multiprocessing_context=context
    )
    batches = list(loader)
    assert {type(batch) for batch in batches} == {dict}
    assert torch.cat([batch["id"] for batch in batches]).tolist() == list(range(55))


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


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"uneven": "pad"}, 55),
        ({"uneven": "pad", "on_error": "skip"}, 55),
        ({"uneven": "pad", "epochs": 2, "shuffle": True}, 55),
        ({"uneven": "pad", "batch_size": 19}, 55),  # a padded step that is full
        ({"uneven": "pad", "drop_last": True}, 45),
        ({"uneven": "drop"}, 54),
        ({"uneven": "keep"}, 55),
    ],
)
def test_repeated_records_are_not_counted(
    paths: list[str],
    accelerator: Accelerator,
    options: dict[str, Any],
    kept: int,
    workers: int,
) -> None:
    """``gather_for_metrics`` keeps the first ``remainder`` records of the last step."""
    assert gathered(paths, accelerator, workers, **options) == (kept, kept)


def gathered(
    paths: list[str], accelerator: Accelerator, workers: int, **options: Any
) -> tuple[int, int]:
    """Return the number of records in the last epoch that 3 ranks gather, and of different ones."""
    ranks, remainders = [], set()
    for rank in range(3):
        options = {"batch_size": 5, **options}
        dataset = tio.TFRecordDataset(paths, SCHEMA, rank=rank, world_size=3, **options)
        loader = tio.make_loader(dataset, num_workers=workers)
        batches = []
        for batch in loader:
            batches.append(batch["id"].tolist())
            remainder = accelerator.gradient_state.remainder
            is_last = accelerator.gradient_state.end_of_dataloader
            assert is_last == (len(batches) == len(loader))
        remainders.add(remainder)
        ranks.append(batches[-len(loader) // options.get("epochs", 1) :])
    [remainder] = remainders
    steps = [list(itertools.chain(*step)) for step in zip(*ranks, strict=True)]
    if remainder > 0:
        steps[-1] = steps[-1][:remainder]
    found = list(itertools.chain(*steps))
    return len(found), len(set(found))


def test_repeated_records_that_cannot_be_told_from_others(
    paths: list[str], accelerator: Accelerator
) -> None:
    shuffle = tio.Shuffle(block=5, window=10, lanes=6)
    lanes = {"uneven": "pad", "shuffle": shuffle, "batch_size": 6}
    assert gathered(paths, accelerator, 0, **lanes) == (60, 55)
    samples = tio.TFRecordDataset(paths, SCHEMA, uneven="pad", rank=0, world_size=3)
    for _ in tio.make_loader(samples):
        remainder = accelerator.gradient_state.remainder
    assert remainder == -1


def test_a_resumed_epoch(paths: list[str], accelerator: Accelerator) -> None:
    """With another number of ranks, the last step has other records."""
    options: Any = {"batch_size": 5, "uneven": "pad"}
    first = tio.make_loader(tio.TFRecordDataset(paths, SCHEMA, rank=0, world_size=2, **options))
    next(iter(first))
    other = tio.make_loader(tio.TFRecordDataset(paths, SCHEMA, rank=0, world_size=4, **options))
    other.load_state_dict(first.state_dict())
    for _ in other:
        remainder = accelerator.gradient_state.remainder
    assert remainder == (55 - 10) % 20
    other.load_state_dict(first.state_dict())
    assert len(list(other)) == 3


def test_gradients_that_are_not_applied(
    paths: list[str], accelerator: Accelerator, caplog: pytest.LogCaptureFixture
) -> None:
    """A stream does not know its end."""
    loader = tio.make_loader(tio.TFRecordStream(paths, SCHEMA, batch_size=5))
    with caplog.at_level(logging.WARNING, "torchrec_io"):
        assert steps(accelerator, loader) == [3, 7]
        [record] = caplog.records
        assert "not applied in it" in record.message
        caplog.clear()
        accelerator.gradient_accumulation_steps = 1
        assert steps(accelerator, loader) == list(range(11))
        assert not caplog.records
