"""torchdata's StatefulDataLoader. That it resumes exactly is in tests/contract."""

from __future__ import annotations

from typing import Any

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

import torchrec_io as tio
from tests.support.datasets import SCHEMA
from tests.support.loading import error_of

# torchdata 0.11 causes this warning when it creates a loader.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")


SIZES = [13, 0, 7, 10]


def make(paths: list[str], seed: int) -> StatefulDataLoader[Any]:
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=4, shuffle=True, seed=seed)
    return StatefulDataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context="fork"
    )


def test_state_of_another_order_is_rejected_in_the_worker(paths: list[str]) -> None:
    loader = make(paths, 5)
    next(iter(loader))
    state = loader.state_dict()
    del loader  # as in error_of
    other = make(paths, 6)
    other.load_state_dict(state)
    error = error_of(other)
    assert isinstance(error, tio.StateMismatchError)
    assert "seed is 6 here and 5 in the state" in str(error)
