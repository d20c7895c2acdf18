"""The default of ``uneven``: different numbers of batches on the ranks are an error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.datasets import SCHEMA, write_files

SIZES = [10, 11]


def make(paths: Any, **options: Any) -> tio.TFRecordDataset:
    return tio.TFRecordDataset(paths, SCHEMA, **options)


def counts(paths: Any, world: int, **options: Any) -> list[int]:
    """Return the number of batches or samples of each rank, which its length says before."""
    ranks = [make(paths, rank=rank, world_size=world, **options) for rank in range(world)]
    lengths = [len(rank) for rank in ranks]
    assert [len(list(rank)) for rank in ranks] == lengths
    return lengths


def test_the_message_has_all_counts_and_choices(paths: list[str]) -> None:
    dataset = make(paths, batch_size=2, rank=1, world_size=2)
    assert len(dataset) == 5  # as with uneven="keep"
    with pytest.raises(ValueError, match="ranks would get") as raised:
        next(iter(dataset))
    assert str(raised.value) == (
        "ranks would get different numbers of batches, from 5 to 6. Set uneven='pad' to repeat "
        "some records, uneven='drop' to leave some out (both give all ranks equal numbers), or "
        "uneven='keep' if the training loop can handle different numbers"
    )


def test_samples_are_counted_without_a_batch_size(paths: list[str]) -> None:
    reason = "numbers of samples, from 5 to 6"
    for rank in range(4):
        with pytest.raises(ValueError, match=reason):
            list(make(paths, rank=rank, world_size=4))
    assert counts(paths, 3) == [7, 7, 7]


@given(st.integers(1, 6), st.integers(1, 12), st.booleans())
def test_iteration_raises_if_the_numbers_differ(
    tmp_path_factory: pytest.TempPathFactory, world: int, batch_size: int, drop_last: bool
) -> None:
    paths = write_files(tmp_path_factory.mktemp("numbers"), [21])
    options: Any = {"batch_size": batch_size, "drop_last": drop_last}
    kept = counts(paths, world, uneven="keep", **options)
    if len(set(kept)) == 1:
        assert counts(paths, world, **options) == kept
        return
    for rank in range(world):
        with pytest.raises(ValueError, match="different numbers of batches"):
            next(iter(make(paths, rank=rank, world_size=world, **options)))
    for uneven in ("pad", "drop"):
        assert len(set(counts(paths, world, uneven=uneven, **options))) == 1


def test_steps(paths: list[str]) -> None:
    episodes = make(paths).replace(schema={"tokens": tio.VarLenFeature("int64")})
    steps = episodes.steps(group="tokens")
    assert steps.num_records == 40
    assert len(list(steps.replace(rank=0, world_size=4))) == 10
    with pytest.raises(ValueError, match="different numbers of samples"):
        next(iter(steps.replace(rank=0, world_size=3)))


def test_resumed_run_is_checked_from_its_position(paths: list[str]) -> None:
    """The remaining records may divide evenly over another number of ranks, or not."""
    dataset = make(paths, batch_size=1)
    iterator = iter(dataset)
    for _ in range(5):
        next(iterator)
    state = dataset.state_dict()  # 16 of 21 records remain
    for world, is_even in ((2, True), (4, True), (3, False)):
        other = make(paths, batch_size=1, rank=0, world_size=world)
        other.load_state_dict(state)
        if is_even:
            assert len(list(other)) == 16 // world
        else:
            with pytest.raises(ValueError, match="numbers of batches, from 5 to 6"):
                list(other)
