"""torchdata's StatefulDataLoader: a resumed loader yields exactly the remaining items."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

import torchrec_io as tio
from tests.support.datasets import SCHEMA
from tests.support.loading import error_of
from tests.support.states import through_json

# torchdata 0.11 causes this warning when it creates a loader.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")

SIZES = [13, 0, 7, 10]


def make(
    paths: list[str], workers: int, method: str = "fork", persistent: bool = False, **options: Any
) -> tuple[tio.TFRecordDataset, StatefulDataLoader[Any]]:
    dataset = tio.TFRecordDataset(paths, SCHEMA, **{"batch_size": 4, "seed": 5, **options})
    loader: StatefulDataLoader[Any] = StatefulDataLoader(
        dataset,
        batch_size=None,
        num_workers=workers,
        persistent_workers=persistent,
        multiprocessing_context=method if workers else None,
    )
    return dataset, loader


def train(
    dataset: tio.TFRecordDataset, loader: StatefulDataLoader[Any], epochs: range
) -> Iterator[tuple[int, list[int]]]:
    """Run a usual training loop and return its items."""
    for epoch in epochs:
        dataset.set_epoch(epoch)
        for batch in loader:
            yield epoch, batch["id"].tolist()


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True)])
def test_training_loop_of_several_epochs(paths: list[str], workers: int, persistent: bool) -> None:
    whole = list(train(*make(paths, 0, shuffle=True), range(3)))
    per_epoch = len(whole) // 3
    # In the middle of an epoch, before and after its end, and after the last epoch.
    for stop in (1, per_epoch - 1, per_epoch, per_epoch + 1, 2 * per_epoch + 3, len(whole)):
        dataset, loader = make(paths, workers, persistent=persistent, shuffle=True)
        seen = list(itertools.islice(train(dataset, loader, range(3)), stop))
        state = through_json(loader.state_dict())
        dataset, loader = make(paths, workers, persistent=persistent, shuffle=True)
        loader.load_state_dict(state)
        rest = list(train(dataset, loader, range(seen[-1][0], 3)))
        assert seen + rest == whole


def test_state_of_another_order_is_rejected_in_the_worker(paths: list[str]) -> None:
    _, loader = make(paths, 2, shuffle=True)
    next(iter(loader))
    state = loader.state_dict()
    del loader  # as in error_of
    _, other = make(paths, 2, shuffle=True, seed=6)
    other.load_state_dict(state)
    error = error_of(other)
    assert isinstance(error, tio.StateMismatchError)
    assert "seed is 6 here and 5 in the state" in str(error)
