"""Datasets whose batches by length, or packed rows, change their size at given steps."""

from __future__ import annotations

import collections
import itertools
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.datasets import open_records, write_files
from tests.support.states import rest_of, states_of

COUNT = 40
TOKENS = tio.Ramp({0: 6, 3: 12, 5: 4, 15: 9})
LENGTHS = tio.Ramp({0: 5, 2: 8, 9: 6, 14: 10})


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return write_files(tmp_path, [13, 0, 16, 11])


def by_length(paths: Any, world: int = 1, rank: int = 0, **options: Any) -> Any:
    ramped = {"batch_tokens": TOKENS, "length_key": "tokens", "shuffle": True, "uneven": "keep"}
    return open_records(paths, **{**ramped, "rank": rank, "world_size": world, **options})


def packed(paths: Any, world: int = 1, rank: int = 0, mode: Any = "fit", **options: Any) -> Any:
    pack = tio.Pack(LENGTHS, key="tokens", mode=mode, window=15)
    ramped = {"pack": pack, "shuffle": True, "on_error": "skip", "uneven": "keep"}
    layout = {"batch_size": 4 // world, "rank": rank, "world_size": world}
    return open_records(paths, **{**ramped, **layout, **options})


def size_of(ramp: tio.Ramp, step: int) -> int:
    return ramp.sizes[max(at for at in ramp.sizes if at <= step)]


def contents(items: Any) -> list[Any]:
    """Return the tokens of each batch: rows, or records."""
    return [[row.tolist() for row in batch["tokens"]] for batch in items]


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("uneven", ["keep", "drop"])
def test_steps_of_batches_by_length(paths: list[str], world: int, uneven: str) -> None:
    ranks = [by_length(paths, world, rank, uneven=uneven) for rank in range(world)]
    step = 0
    for _ in range(3):
        lengths = [len(rank) for rank in ranks]
        found = [[*rank] for rank in ranks]
        assert [len(batches) for batches in found] == lengths
        seen = []
        for batches in itertools.zip_longest(*found):
            for batch in batches:
                if batch is None:
                    continue
                longest = max(1, *(number % 5 for number in batch["id"].tolist()))
                assert len(batch["id"]) * longest <= size_of(TOKENS, step)
                seen += batch["id"].tolist()
            step += 1
        assert len(seen) == len({*seen})
        assert len(seen) == COUNT or uneven == "drop"
    assert step > 15


@pytest.mark.parametrize("mode", ["fit", "chunk"])
@pytest.mark.parametrize(
    ("drop_last", "size"), [(False, 2), (True, 2), (False, tio.Ramp({0: 1, 4: 2}))]
)
def test_steps_of_packed_rows(paths: list[str], mode: str, drop_last: bool, size: Any) -> None:
    options: dict[str, Any] = {"mode": mode, "drop_last": drop_last, "batch_size": size}
    ranks = [packed(paths, 2, rank, **options) for rank in range(2)]
    step = 0
    for _ in range(3):
        lengths = [len(rank) for rank in ranks]
        found = [[*rank] for rank in ranks]
        assert [len(batches) for batches in found] == lengths
        pieces = []
        for batches in itertools.zip_longest(*found):
            for batch in batches:
                if batch is None:
                    continue
                assert batch["tokens"].shape[1] == size_of(LENGTHS, step)
                pieces += batch["record_numbers"].values.tolist()
            step += len(batches[0] or []) > 0
        if mode == "fit" and not drop_last:
            assert {*pieces} == {number for number in range(COUNT) if number % 5}


@pytest.mark.parametrize("workers", [0, 2])
def test_resuming_by_count(paths: list[str], workers: int) -> None:
    epochs = [contents(each) for each in [packed(paths)] * 3]
    loader = tio.make_loader(packed(paths), num_workers=workers)
    for epoch, batches in [(0, 0), (0, 1), (0, 3), (1, 1), (1, len(epochs[1])), (2, 1)]:
        loader.resume(epoch=epoch, batches=batches)
        assert contents(loader) == (epochs[epoch][batches:] or epochs[epoch + 1])


@pytest.mark.parametrize("mode", ["fit", "chunk"])
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 4), (4, 2)])
def test_another_number_of_ranks(paths: list[str], mode: str, before: int, after: int) -> None:
    """The global steps stay the same if they have as many rows."""
    one, begun = packed(paths, mode=mode), packed(paths, before, 0, mode)
    epochs = [contents(one) for _ in range(3)]
    for epoch in range(2):
        begun.set_epoch(epoch)
        for taken, state in states_of(begun):
            ranks = []
            for rank in range(after):
                dataset = packed(paths, after, rank, mode)
                dataset.load_state_dict(state)
                ranks.append(contents(dataset))
            steps = itertools.zip_longest(*ranks, fillvalue=[])
            found = [[*itertools.chain(*each)] for each in steps]
            assert found == rest_of(epochs[epoch], epochs[epoch + 1], taken)


@pytest.mark.parametrize(("open_as", "ramp"), [(by_length, TOKENS), (packed, LENGTHS)])
@pytest.mark.parametrize("world", [1, 2])
def test_virtual_epochs(paths: list[str], open_as: Any, ramp: tio.Ramp, world: int) -> None:
    """A pass over the data begins inside a virtual epoch, also where the size changes."""
    options = {"steps_per_epoch": 4, "epochs": 6}
    ranks = [open_as(paths, world, rank, **options) for rank in range(world)]
    steps = [*zip(*ranks, strict=True)]
    assert len(steps) == 24
    seen: collections.Counter[int] = collections.Counter()
    for step, batches in enumerate(steps):
        for batch in batches:
            if open_as is packed:
                assert batch["tokens"].shape[1] == size_of(ramp, step)
                numbers = {*batch["record_numbers"].values.tolist()}  # in pieces
            else:
                numbers = batch["id"].tolist()
                longest = max(1, *(number % 5 for number in numbers))
                assert len(numbers) * longest <= size_of(ramp, step)
            seen.update(numbers)
    if open_as is by_length:
        assert max(seen.values()) - min(seen.values()) <= 1
    expected = [[*itertools.chain(*contents(batches))] for batches in steps]
    following = steps_of(ranks)
    for taken, state in states_of(open_as(paths, world, world - 1, **options)):
        resumed = [open_as(paths, world, rank, **options) for rank in range(world)]
        for dataset in resumed:
            dataset.load_state_dict(state)
        assert steps_of(resumed) == rest_of(expected, following, taken)


def steps_of(ranks: list[Any]) -> list[list[Any]]:
    """Return the tokens of each global step."""
    steps = zip(*map(contents, ranks), strict=True)
    return [[*itertools.chain(*batches)] for batches in steps]


def test_other_ranks_and_virtual_epochs(paths: list[str]) -> None:
    """Where a pass begins depends on all changes before it, which must be the same."""
    options: dict[str, Any] = {"steps_per_epoch": 4, "epochs": 6}
    whole = steps_of([packed(paths, **options)])
    for taken, state in states_of(packed(paths, 2, **options)):
        dataset = packed(paths, **options)
        dataset.load_state_dict(state)
        assert taken == 24 or contents(dataset) == whole[taken:]
        other = packed(paths, batch_size=2, **{**options, "steps_per_epoch": 8})
        if taken <= 1:  # the change at step 2 of the other comes after 4 rows
            other.load_state_dict(state)
        else:
            with pytest.raises(tio.StateMismatchError, match=r"limit_from.* here and .* the state"):
                other.load_state_dict(state)


def test_other_ranks_of_batches_by_length(paths: list[str]) -> None:
    """More ranks have more batches before a change, so they continue only before it."""
    for taken, state in states_of(by_length(paths, 2)):
        dataset = by_length(paths, 1)
        if taken > 3:
            reason = r"limit_from.6 is None here and 12 in the state"
            with pytest.raises(tio.StateMismatchError, match=reason):
                dataset.load_state_dict(state)
        elif taken <= 1:  # step 3 of one rank comes after 3 batches
            dataset.load_state_dict(state)
            batches = contents(dataset)
            begun = contents(itertools.islice(by_length(paths, 1), 2 * taken))
            assert begun + batches == contents(by_length(paths, 1))
        if taken == 2:
            with pytest.raises(tio.StateMismatchError, match=r"limit_from.3 is 12 here and None"):
                dataset.load_state_dict(state)


def test_the_start_of_an_epoch_is_part_of_the_order(paths: list[str]) -> None:
    pack = tio.Pack(tio.Ramp({0: 5, 2: 8, 4: 6}), "tokens", window=15)
    dataset = packed(paths, pack=pack)
    dataset.set_epoch(1)  # from step 4 on
    state = dataset.state_dict()
    packed(paths, pack=pack, drop_last=True).load_state_dict(state)
    next(iter(dataset))
    other = packed(paths, pack=pack, drop_last=True)  # its epoch 1 begins with step 3
    with pytest.raises(tio.StateMismatchError, match=r"limit_from.0 is 8 here and 6 in the state"):
        other.load_state_dict(dataset.state_dict())


def test_records_longer_than_the_least_limit(paths: list[str]) -> None:
    ramp = tio.Ramp({0: 9, 4: 3})
    with pytest.raises(ValueError, match="8 of 40 records are longer than batch_tokens=3"):
        by_length(paths, batch_tokens=ramp)
    assert by_length(paths, batch_tokens=ramp, on_error="skip").num_records == 32
    pack = tio.Pack(ramp, "tokens", long="error")
    skipped = packed(paths, pack=pack)
    assert "more than 3 tokens" in str([*skipped._session.pipeline.errors, skipped.stats()])
    numbers = [batch["record_numbers"].values.tolist() for batch in skipped]
    assert max(number % 5 for number in itertools.chain(*numbers)) == 3


def test_mixtures(paths: list[str]) -> None:
    parts = [open_records(some, shuffle=True, on_error="skip") for some in (paths[0], paths[2:])]
    pack: Any = tio.Pack(LENGTHS, "tokens", window=15)
    for stop in ("each_once", "endless"):
        options: Any = {"weights": [1, 2], "stop": stop, "pack": pack, "batch_size": 4}
        batches = [*itertools.islice(tio.mix(parts, **options), 20)]
        found = [batch["tokens"].shape[1] for batch in batches]
        assert found == [size_of(LENGTHS, step) for step in range(len(found))]
        assert (len(found) == 20) == (stop == "endless")


def test_arguments_that_do_not_fit(paths: list[str]) -> None:
    for open_as, name in [(by_length, "batch_tokens"), (packed, "the length of packed rows")]:
        with pytest.raises(ValueError, match=f"'drop' or 'keep' with a Ramp of {name}, got 'pad'"):
            open_as(paths, uneven="pad")
    with pytest.raises(ValueError, match="set batch_size, the rows of a step"):
        packed(paths, batch_size=None)
    with pytest.raises(ValueError, match=r"the largest size of length must be .* 16777216, got 3"):
        tio.Pack(tio.Ramp({0: 1, 2: 1 << 25}))
    with pytest.raises(ValueError, match="lanes has no packed rows"):
        packed(paths, shuffle=tio.Shuffle(block=2, window=4, lanes=2))
    assert "rows of Ramp({0: 5, " in tio.make_loader(packed(paths)).describe()
    assert "Ramp({0: 6, 3: 12, 5: 4, 15: 9}) tokens" in tio.make_loader(by_length(paths)).describe()
