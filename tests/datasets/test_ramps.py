"""Datasets whose batch size changes at given steps: their batches, lengths and resumed runs."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.datasets import ids_of, numbers_of, open_records, record, write_files
from tests.support.states import states_of, through_json
from tests.support.tfrecord import write_tfrecord

SIZES = [13, 0, 7, 11]
COUNT = sum(SIZES)
RAMP = tio.Ramp({0: 12, 2: 6, 5: 24, 30: 36})  # for one rank


def of_ranks(world: int) -> tio.Ramp:
    """Return the ramp of each rank, with the global batches of :data:`RAMP`."""
    return tio.Ramp({step: size // world for step, size in RAMP.sizes.items()})


def make(paths: Any, world: int = 1, **options: Any) -> Any:
    defaults = {"shuffle": True, "seed": 5, "world_size": world, "rank": 0, "uneven": "keep"}
    return open_records(paths, **{"batch_size": of_ranks(world), **defaults, **options})


def size_of(ramp: tio.Ramp, step: int) -> int:
    return ramp.sizes[max(at for at in ramp.sizes if at <= step)]


def expected_epochs(paths: Any, ramp: tio.Ramp, world: int, **options: Any) -> list[Any]:
    """Return the batches of each rank in three epochs, found by walking through all steps."""
    uneven, drop_last = options["uneven"], options["drop_last"]
    step, epochs = 0, []
    for epoch in range(3):
        whole = make(paths, batch_size=COUNT)
        whole.set_epoch(epoch)
        order = numbers_of(whole)
        ranks: list[list[Any]] = [[] for _ in range(world)]
        if uneven == "drop":
            order = order[: COUNT // world * world]
        elif uneven == "pad":
            order += order[: -COUNT % world]
        while order:
            size = size_of(ramp, step)
            taken, order = order[: size * world], order[size * world :]
            each, extra = divmod(len(taken), world)
            cuts = [rank * each + min(rank, extra) for rank in range(world + 1)]
            for rank, (begin, end) in enumerate(itertools.pairwise(cuts)):
                if end > begin and not (drop_last and end - begin < size):
                    ranks[rank].append(taken[begin:end])
            step += len(taken) > 0 and not (drop_last and cuts[1] < size)
        epochs.append(ranks)
    return epochs


@pytest.mark.parametrize("sizes", [{0: 1, 2: 2, 10: 3}, {0: 4, 4: 1, 9: 50}, {0: 3, 1: 2}])
@pytest.mark.parametrize("uneven", ["keep", "drop", "pad"])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("world", [1, 3])
def test_steps_are_counted_over_epochs(
    paths: list[str], sizes: dict[int, int], uneven: str, drop_last: bool, world: int
) -> None:
    ramp = tio.Ramp(sizes)
    options: dict[str, Any] = {"uneven": uneven, "drop_last": drop_last}
    epochs = expected_epochs(paths, ramp, world, **options)
    for rank in range(world):
        dataset = make(paths, world, batch_size=ramp, rank=rank, **options)
        for ranks in epochs:
            assert len(dataset) == len(ranks[rank])
            assert ids_of(dataset) == ranks[rank]
        all_at_once = dataset.replace(epochs=3)
        expected = [batch for ranks in epochs for batch in ranks[rank]]
        assert len(all_at_once) == len(expected)
        assert ids_of(all_at_once) == expected
        later = dataset.replace()
        later.set_epoch(2)
        assert ids_of(later) == epochs[2][rank]


@pytest.mark.parametrize("drop_last", [False, True])
def test_late_epochs(paths: list[str], drop_last: bool) -> None:
    ramp = tio.Ramp({0: 20, 5: 7, 48: 12, 100: 9})
    dataset = make(paths, batch_size=ramp, drop_last=drop_last, shuffle=False)
    sizes = [[len(batch) for batch in ids_of(dataset)] for _ in range(45)]
    for epoch in range(45):
        late = dataset.replace()
        late.set_epoch(epoch)
        assert [len(batch) for batch in ids_of(late)] == sizes[epoch]


@pytest.mark.parametrize("workers", [0, 2])
def test_resuming_by_count(paths: list[str], workers: int) -> None:
    epochs = [ids_of(each) for each in [make(paths)] * 3]
    loader = tio.make_loader(make(paths), num_workers=workers)
    for epoch, batches in [(0, 0), (0, 1), (0, 3), (1, 1), (1, len(epochs[1])), (2, 1)]:
        loader.resume(epoch=epoch, batches=batches)
        found = ids_of(loader)
        assert found == (epochs[epoch][batches:] or epochs[epoch + 1])
    with pytest.raises(ValueError, match=f"batches must be at most {len(epochs[1])}"):
        loader.resume(epoch=1, batches=len(epochs[1]) + 1)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (2, 1), (3, 2), (6, 3)])
def test_another_number_of_ranks(tmp_path: Path, before: int, after: int) -> None:
    """The global steps stay the same if the global batches do."""
    paths = write_files(tmp_path, [20, 16])
    steps = ids_of(make(paths, epochs=2))
    assert [len(step) for step in steps] == [12, 12, 6, 6, 6, 24, 6]
    for taken, state in states_of(make(paths, before, rank=before - 1, epochs=2)):
        ranks = []
        for rank in range(after):
            dataset = make(paths, after, rank=rank, epochs=2)
            dataset.load_state_dict(state)
            ranks.append(ids_of(dataset))
        found = [[*itertools.chain(*each)] for each in itertools.zip_longest(*ranks, fillvalue=[])]
        assert found == (steps[taken:] or ids_of(make(paths, epochs=4))[7:])


@pytest.mark.parametrize("workers", [0, 1])
def test_a_state_inside_a_step(tmp_path: Path, workers: int) -> None:
    """Lost records let a single rank leave the steps; its next batch has the size of its place."""
    bad = {1, 2, 5, 11}
    data = [b"\xff" if number in bad else record(number) for number in range(40)]
    path = str(write_tfrecord(tmp_path / "data", data))
    ramp = tio.Ramp({0: 3, 4: 8})
    options: dict[str, Any] = {"shuffle": False, "batch_size": ramp, "on_error": "skip"}
    loader = tio.make_loader(make(path, **options), num_workers=workers)
    taken = ids_of(itertools.islice(loader, 3))
    # Planned are steps of 3 records up to record 12, and of 8 from there on.
    assert taken == [[0, 3, 4], [6, 7, 8], [9, 10, 12]]
    state = through_json(loader.state_dict())
    rest = [[*range(13, 21)], [*range(21, 29)], [*range(29, 37)], [37, 38, 39]]
    other = tio.make_loader(make(path, **options), num_workers=workers)
    other.load_state_dict(state)
    assert ids_of(other) == rest
    # Two ranks continue at record 13, in the first step of 8 records.
    of_rank = tio.Ramp({0: 3, 4: 8})
    ranks = []
    for rank in range(2 if workers == 0 else 0):
        dataset = make(path, 2, **{**options, "batch_size": of_rank}, rank=rank)
        dataset.load_state_dict(state)
        ranks.append(ids_of(dataset))
    if ranks:
        # With two ranks, record 13 is in step 2, of 3 records each; steps of 8 begin with step 4.
        assert ranks[0] == [[13, 14, 15], [19, 20, 21], [*range(25, 33)]]
        assert ranks[1] == [[16, 17, 18], [22, 23, 24], [*range(33, 40)]]


def test_lanes(paths: list[str]) -> None:
    shuffle = tio.Shuffle(block=2, window=4, lanes=6)
    steps = [
        [
            sorted(itertools.chain(*each))
            for each in itertools.zip_longest(
                *(ids_of(make(paths, world, rank=rank, shuffle=shuffle)) for rank in range(world)),
                fillvalue=[],
            )
        ]
        for world in (1, 2, 3, 6)
    ]
    assert steps == [steps[0]] * 4
    assert [len(step) for step in steps[0]] == [12, 12, 6, 1]
    odd = make(paths, 2, shuffle=shuffle, batch_size=tio.Ramp({0: 3, 5: 4}))
    with pytest.raises(ValueError, match="the global batch must be a multiple of the 6 lanes"):
        len(odd)


@pytest.mark.parametrize("mode", ["fit", "chunk"])
def test_rows(paths: list[str], mode: Any) -> None:
    pack: Any = tio.Pack(8, key="tokens", mode=mode, window=10)
    options: dict[str, Any] = {"pack": pack, "on_error": "skip"}
    ramp = tio.Ramp({0: 2, 2: 1, 6: 3})
    ranks = [make(paths, 2, batch_size=ramp, rank=rank, **options) for rank in range(2)]
    one = make(paths, batch_size=1, **options)
    step = 0
    for _ in range(3):
        rows = [batch["tokens"].tolist()[0] for batch in one]
        lengths = [len(rank) for rank in ranks]
        found = [[batch["tokens"].tolist() for batch in rank] for rank in ranks]
        assert [len(batches) for batches in found] == lengths
        for left, right in itertools.zip_longest(*found, fillvalue=[]):
            taken, rows = rows[: 2 * size_of(ramp, step)], rows[2 * size_of(ramp, step) :]
            assert left + right == taken
            step += 1
        assert rows == []


def test_the_last_step_of_accelerate(paths: list[str]) -> None:
    """Repeated records of the last step are counted in a step of its own size."""
    for rank in range(3):
        ramp = tio.Ramp({0: 4, 2: 3})
        loader = tio.make_loader(make(paths, 3, rank=rank, batch_size=ramp, uneven="pad"))
        # 31 records and 2 repeated ones: two steps of 12, and one of 9.
        assert [len(batch) for batch in ids_of(loader)] == [4, 4, 3]
        loop = loader._batches.newest
        assert loop is not None
        assert loop.num_unrepeated() == 7


def test_the_trainer_of_transformers(paths: list[str]) -> None:
    dataset = make(paths, batch_size=tio.Ramp({0: 4, 8: 10}))
    epochs = [ids_of(dataset.replace(epochs=4))]
    lengths = [8, 4, 4, 4]
    assert len(epochs[0]) == sum(lengths)
    arguments: Any = SimpleNamespace(ignore_data_skip=True, gradient_accumulation_steps=2)
    for steps, place in [(3, 6), (4, 8), (5, 10), (6, 12), (7, 14)]:
        loader = tio.make_loader(dataset.replace())
        callback = tio.integrations.transformers.ResumeLoader()
        state: Any = SimpleNamespace(global_step=steps)
        callback.on_train_begin(arguments, state, None, train_dataloader=loader)
        assert ids_of(loader)[0] == epochs[0][place]


def test_arguments_that_do_not_fit(paths: list[str]) -> None:
    with pytest.raises(ValueError, match=r"an integer or None for batches by length, got Ramp\("):
        make(paths, length_key="tokens")
    with pytest.raises(ValueError, match=r"batch_size must be a positive integer, got Ramp\("):
        open_records(paths, stream=True, batch_size=RAMP)
    with pytest.raises(
        ValueError, match=r"got Ramp\(.*: a dataset takes a Ramp, as in make_loader"
    ):
        tio.make_loader(make(paths, batch_size=None), batch_size=RAMP)  # type: ignore[call-overload]
    assert "of Ramp({0: 12, " in tio.make_loader(make(paths)).describe()


def test_mixtures_and_empty_datasets(paths: list[str], tmp_path: Path) -> None:
    parts = [open_records(some, shuffle=True) for some in (paths[0], paths[2:])]
    options: Any = {"weights": [1, 2], "stop": "each_once", "epochs": 2}
    mixed = tio.mix(parts, batch_size=tio.Ramp({0: 3, 5: 7}), **options)
    found = ids_of(mixed)
    assert [len(batch) for batch in found] == [3] * 5 + [7, 7, 2] + [7, 7, 7, 7, 3]
    whole = numbers_of(tio.mix(parts, batch_size=COUNT, **options))
    assert [*itertools.chain(*found)] == whole
    empty = write_files(tmp_path, [0])
    assert ids_of(make(empty, epochs=5)) == []
    assert ids_of(make(empty, epochs=None)) == []
