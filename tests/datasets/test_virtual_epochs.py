"""Epochs of a given number of steps, each of which continues the data where the last one ended."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import ids_of, numbers_of, open_records, record, write_files
from tests.support.states import states_of, through_json
from tests.support.tfrecord import write_tfrecord

SIZES = [13, 0, 7, 11]
COUNT = sum(SIZES)
STEPS = 3


def make(paths: Any, **options: Any) -> Any:
    defaults = {"shuffle": True, "seed": 5, "batch_size": 4, "steps_per_epoch": STEPS}
    return open_records(paths, **{**defaults, **options})


def endless(paths: Any, count: int) -> list[int]:
    """Return the first records of all real epochs in a row."""
    whole = make(paths, steps_per_epoch=None, epochs=None, batch_size=1)
    return numbers_of(itertools.islice(whole, count))


def cut(numbers: list[int], size: int) -> list[list[int]]:
    return [numbers[at : at + size] for at in range(0, len(numbers), size)]


@pytest.mark.parametrize("uneven", [None, "keep", "drop", "pad"])
@pytest.mark.parametrize("world", [1, 2, 3])
def test_each_record_comes_once_in_a_real_epoch(
    paths: list[str], world: int, uneven: str | None
) -> None:
    steps = cut(endless(paths, 8 * STEPS * 4 * world), 4 * world)
    ranks = [make(paths, rank=rank, world_size=world, uneven=uneven) for rank in range(world)]
    for epoch in range(8):
        assert [len(dataset) for dataset in ranks] == [STEPS] * world
        each = [ids_of(dataset) for dataset in ranks]
        found = [[*itertools.chain(*step)] for step in zip(*each, strict=True)]
        assert found == steps[epoch * STEPS : (epoch + 1) * STEPS]
    assert ranks[0].num_records == COUNT


@pytest.mark.parametrize("kind", ["plain", "fork", "spawn", "make_loader"])
@pytest.mark.parametrize("size", [4, None])
def test_loaders(paths: list[str], kind: str, size: int | None) -> None:
    dataset = make(paths, batch_size=size, rank=1, world_size=2)
    expected = [ids_of(dataset) for _ in range(6)]
    assert [len(epoch) for epoch in expected] == [STEPS] * 6
    if size is None:  # two ranks take turns
        assert [*itertools.chain(*expected)] == endless(paths, 36)[1::2]
    dataset.set_epoch(0)
    options: dict[str, Any] = {"num_workers": 0 if kind == "plain" else 2}
    if kind == "make_loader":
        loader: Any = tio.make_loader(dataset, **options)
        assert len(loader) == STEPS
    else:
        if kind != "plain":
            options["multiprocessing_context"] = kind
        loader = DataLoader(dataset, batch_size=None, **options)
    for epoch, items in enumerate(expected[:3] if kind == "spawn" else expected):
        dataset.set_epoch(epoch)
        found = ids_of(loader)
        assert found == items if size else sorted(found) == sorted(items)


def test_several_epochs_and_any_epoch(paths: list[str]) -> None:
    batches = cut(endless(paths, 20 * STEPS * 4), 4)
    several = make(paths, epochs=4)
    assert len(several) == 4 * STEPS
    assert ids_of(several) == batches[: 4 * STEPS]
    assert ids_of(several) == batches[4 * STEPS : 8 * STEPS]
    never_ending = make(paths, epochs=None)
    assert ids_of(itertools.islice(never_ending, 50)) == batches[:50]
    with pytest.raises(TypeError, match="an endless dataset has no length"):
        len(never_ending)
    dataset = make(paths)
    for epoch in (17, 2, 9):
        dataset.set_epoch(epoch)
        assert ids_of(dataset) == batches[epoch * STEPS : (epoch + 1) * STEPS]
    dataset.resume(epoch=11, batches=2)
    assert ids_of(dataset) == batches[11 * STEPS + 2 : 12 * STEPS]
    with pytest.raises(ValueError, match="batches must be at most 3"):
        dataset.resume(epoch=11, batches=4)


def test_more_steps_than_the_data_has(paths: list[str]) -> None:
    dataset = make(paths, steps_per_epoch=40)
    assert ids_of(dataset) == cut(endless(paths, 160), 4)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (4, 1), (2, 4)])
@pytest.mark.parametrize("size", [8, tio.Ramp({0: 4, 2: 8, 7: 16})])
def test_another_number_of_ranks(paths: list[str], before: int, after: int, size: Any) -> None:
    def opened(rank: int, world: int) -> Any:
        of_rank: Any = size
        if isinstance(size, tio.Ramp):
            of_rank = tio.Ramp({step: each // world for step, each in size.sizes.items()})
        else:
            of_rank = size // world
        return make(paths, batch_size=of_rank, rank=rank, world_size=world, epochs=3)

    steps = ids_of(opened(0, 1).replace(epochs=6))
    for taken, state in states_of(opened(before - 1, before)):
        ranks = []
        for rank in range(after):
            dataset = opened(rank, after)
            dataset.load_state_dict(state)
            ranks.append(ids_of(dataset))
        found = [[*itertools.chain(*step)] for step in zip(*ranks, strict=True)]
        assert found == (steps[taken : 3 * STEPS] or steps[3 * STEPS :])


def test_a_state_of_steps_of_another_size_is_refused(paths: list[str]) -> None:
    """Twice the ranks with the same batch size have twice the records in an epoch."""
    dataset = make(paths)
    next(iter(dataset))
    reason = "records_per_epoch is 24 here and 12 in the state"
    with pytest.raises(tio.StateMismatchError, match=reason):
        make(paths, rank=0, world_size=2).load_state_dict(dataset.state_dict())


def test_lost_records_are_replaced(tmp_path: Path) -> None:
    bad = {3, 4, 12, 29, 30}
    data = [b"\xff" if number in bad else record(number) for number in range(COUNT)]
    path = str(write_tfrecord(tmp_path / "data", data))
    numbers = endless(write_files(tmp_path, [COUNT]), 8 * STEPS * 4)
    for workers in (0, 2):
        dataset = make(path, on_error="skip", uneven="keep")
        loader = tio.make_loader(dataset, num_workers=workers)
        found = [ids_of(loader) for _ in range(8)]
        assert [len(epoch) for epoch in found] == [STEPS] * 8
        flat = [*itertools.chain(*itertools.chain(*found))]
        assert len(flat) == len(numbers)
        for number, planned in zip(flat, numbers, strict=True):
            assert number == planned or (planned in bad and number not in bad)
    assert dataset.repeated == sum(number in bad for number in numbers)
    for taken, state in states_of(make(path, on_error="skip", uneven="keep")):
        other = make(path, on_error="skip", uneven="keep")
        other.load_state_dict(state)
        assert ids_of(other) == (found[0][taken:] or found[1])


@pytest.mark.parametrize("stop", ["first_exhausted", "all_exhausted", "endless"])
def test_mixtures(paths: list[str], stop: Any) -> None:
    parts = [open_records(some, shuffle=True, steps_per_epoch=9) for some in (paths[0], paths[2:])]
    options: Any = {"weights": [1, 2], "stop": stop, "batch_size": 4}
    mixed = tio.mix(parts, steps_per_epoch=STEPS, **options)
    assert len(mixed) == STEPS
    found = [ids_of(mixed) for _ in range(8)]
    ones = tio.mix(parts, epochs=None, steps_per_epoch=None, **{**options, "batch_size": 1})
    expected = numbers_of(itertools.islice(ones, 8 * STEPS * 4))
    assert [*itertools.chain(*found)] == cut(expected, 4)
    assert mixed.num_records == ones.num_records
    assert len(tio.mix(parts, **options)) == 9  # that of its parts
    with pytest.raises(ValueError, match="datasets differ in steps_per_epoch: 9 and 8"):
        tio.mix([parts[0], parts[1].replace(steps_per_epoch=8)], **options)


ROWS: dict[str, Any] = {"pack": tio.Pack(6, key="tokens", window=9), "on_error": "skip"}
BY_LENGTH: dict[str, Any] = {"batch_size": None, "batch_tokens": 9, "length_key": "tokens"}


def units_of(batch: Any, options: dict[str, Any]) -> list[Any]:
    """Return the rows of a batch, or a batch by length as a whole."""
    return batch["tokens"].tolist() if options is ROWS else [batch["id"].tolist()]


@pytest.mark.parametrize("options", [ROWS, BY_LENGTH])
@pytest.mark.parametrize("world", [1, 2])
def test_rows_and_batches_by_length(paths: list[str], options: dict[str, Any], world: int) -> None:
    own = {**options, "world_size": world}
    size = (4 if options is ROWS else 1) * world
    whole = make(paths, **{**options, "steps_per_epoch": None, "epochs": None, "num_threads": 1})
    endless = (unit for batch in whole for unit in units_of(batch, options))
    expected = cut([*itertools.islice(endless, 6 * STEPS * size)], size)
    ranks = [make(paths, **own, rank=rank, epochs=3) for rank in range(world)]
    assert [len(dataset) for dataset in ranks] == [3 * STEPS] * world

    def steps_of(loaders: list[Any]) -> list[list[Any]]:
        steps = zip(*loaders, strict=True)
        return [[unit for batch in step for unit in units_of(batch, options)] for step in steps]

    assert steps_of(ranks) == expected[: 3 * STEPS]
    workers = [tio.make_loader(dataset, num_workers=2) for dataset in ranks]
    assert steps_of(workers) == expected[3 * STEPS :]
    for taken, state in states_of(make(paths, **own, rank=world - 1, epochs=3)):
        resumed = [make(paths, **own, rank=rank, epochs=3) for rank in range(world)]
        for dataset in resumed:
            dataset.load_state_dict(through_json(state))
        assert steps_of(resumed) == (expected[taken : 3 * STEPS] or expected[3 * STEPS :])


def test_empty_datasets(tmp_path: Path) -> None:
    dataset = make(write_files(tmp_path, [0]))
    assert len(dataset) == 0
    assert ids_of(dataset) == ids_of(dataset.replace(epochs=None)) == []


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"steps_per_epoch": 0}, "steps_per_epoch must be a positive integer, got 0"),
    (
        {"shuffle": tio.Shuffle(block=2, window=4, lanes=4)},
        "steps_per_epoch must be None for a shuffle with lanes",
    ),
]


@pytest.mark.parametrize(("options", "reason"), REFUSED)
def test_options_that_do_not_fit(paths: list[str], options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make(paths, **options)
