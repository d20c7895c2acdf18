"""Lost records are replaced in their places, so that all ranks yield the planned steps."""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import SCHEMA, record
from tests.support.states import states_of, through_json
from tests.support.tfrecord import write_tfrecord
from torchrec_io.datasets import replacement

COUNT = 61


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "torchrec_io")


def write(folder: Path, bad: Collection[int], count: int = COUNT) -> str:
    path = str(folder / "a.tfrecord")
    write_tfrecord(path, [b"\xff" if i in bad else record(i) for i in range(count)])
    return path


@functools.cache
def sound_file(folder: Path) -> str:
    return write(folder, ())


def make(path: str, **options: Any) -> tio.TFRecordDataset:
    return tio.TFRecordDataset(path, SCHEMA, **{"seed": 5, "rank": 0, "world_size": 2, **options})


def ids_of(items: Any) -> list[Any]:
    return [item["id"].tolist() for item in items]


def replaced(planned: list[list[int]], bad: Collection[int], reach: int) -> list[list[int]]:
    """Return the batches of a rank as the rule has them, up to one that cannot be completed."""
    flat = [number for batch in planned for number in batch]
    found: list[list[int]] = []
    place = 0
    for batch in planned:
        numbers: list[int] = []
        for number in batch:
            earlier = flat[max(0, place - reach) : place][::-1]
            candidates = [number, *earlier, *flat[place + 1 : place + 1 + reach]]
            sound = [each for each in candidates if each not in bad]
            if not sound:
                return found
            numbers.append(sound[0])
            place += 1
        found.append(numbers)
    return found


def read(dataset: Any) -> list[Any]:
    """Return the batches of a dataset up to a batch that cannot be completed."""
    found: list[Any] = []
    try:
        for batch in dataset:
            ids = batch["id"].tolist()
            found.append(ids if isinstance(ids, list) else [ids])
    except tio.DecodeError as error:
        assert "has no valid record to repeat in place of this one" in str(error)
    return found


@contextmanager
def reach(size: int) -> Iterator[None]:
    with mock.patch.object(replacement, "REACH", size):
        yield


BAD = st.sets(st.integers(0, COUNT - 1)) | st.integers(0, 50).map(
    lambda begin: set(range(begin, begin + 11))
)


class TestTheRule:
    @given(
        bad=BAD,
        size=st.integers(1, 40),
        uneven=st.sampled_from(["drop", "pad"]),
        world=st.integers(1, 4),
        batch_size=st.none() | st.integers(1, 9),
        shuffle=st.sampled_from([False, True, tio.Shuffle(block=4, window=9)]),
        threads=st.sampled_from([1, 2]),
        data=st.data(),
    )
    def test_each_lost_record_is_replaced_by_its_nearest(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        bad: set[int],
        size: int,
        world: int,
        threads: int,
        data: st.DataObject,
        **options: Any,
    ) -> None:
        folder = tmp_path_factory.mktemp("rule")
        options |= {"world_size": world, "rank": data.draw(st.integers(0, world - 1)), "epochs": 2}
        plans = make(sound_file(folder), **options)
        planned = [[number] if isinstance(number, int) else number for number in ids_of(plans)]
        half = len(planned) // 2
        expected = replaced(planned[:half], bad, size)
        if len(expected) == half:
            expected += replaced(planned[half:], bad, size)
        dataset = make(write(folder, bad), on_error="skip", num_threads=threads, **options)
        with reach(size):
            assert read(dataset) == expected
        if len(expected) == len(planned):
            wrong = sum(number in bad for batch in planned for number in batch)
            assert dataset.repeated == wrong
            assert dataset.skipped == wrong

    def test_the_default_of_uneven_replaces_with_several_ranks(self, tmp_path: Path) -> None:
        path = write(tmp_path, {0, 5, 6}, 16)
        options: dict[str, Any] = {"batch_size": 4, "on_error": "skip"}
        assert ids_of(make(path, **options)) == [[1, 1, 2, 3], [8, 9, 10, 11]]
        assert ids_of(make(path, rank=1, **options)) == [[4, 4, 4, 7], [12, 13, 14, 15]]
        assert ids_of(make(path, uneven="keep", **options)) == [[1, 2, 3, 8], [9, 10, 11]]
        alone = make(path, world_size=1, **options)
        assert ids_of(alone) == [[1, 2, 3, 4], [7, 8, 9, 10], [11, 12, 13, 14], [15]]
        assert alone.repeated == 0

    @pytest.mark.parametrize("bad", [range(1, 2001), range(1, 2002)])
    def test_at_most_a_thousand_records_are_read_on_each_side(
        self, tmp_path: Path, bad: range
    ) -> None:
        path = write(tmp_path, bad, 2010)
        dataset = make(path, world_size=1, uneven="drop", batch_size=300, on_error="skip")
        if len(bad) == 2000:
            seen = [number for batch in ids_of(dataset) for number in batch]
            assert seen == [0] * 1001 + [2001] * 1000 + list(range(2001, 2010))
            return
        with pytest.raises(tio.DecodeError) as caught:
            list(dataset)
        assert caught.value.record == 1001
        assert (
            "rank 0 of 1 has no valid record to repeat in place of this one: the 1,000 records "
            "before it and the 1,000 records after it in the rank's order of epoch 0 are lost"
        ) in caught.value.reason

    def test_nothing_is_sound(self, tmp_path: Path) -> None:
        path = write(tmp_path, range(8), 8)
        dataset = make(path, batch_size=2, on_error="skip", rank=1, world_size=2)
        with pytest.raises(tio.DecodeError, match="the 0 records before it and the 3 records"):
            list(dataset)

    def test_no_more_is_read_in_a_running_iteration(self, tmp_path: Path) -> None:
        """The last sound record is known, however many were lost since."""
        path = write(tmp_path, range(1, 900), 1000)
        dataset = make(path, world_size=1, uneven="drop", batch_size=1, on_error="skip")
        fetched: list[int] = []
        plan = type(dataset.session.pipeline.loader.reader).plan

        def counting(self: Any, records: Any, gap: int = 1 << 12) -> Any:
            fetched.append(len(records))
            return plan(self, records, gap)

        with mock.patch.object(type(dataset.session.pipeline.loader.reader), "plan", counting):
            list(dataset)
        assert sum(fetched) < 2 * 1000


class TestKinds:
    def test_keys_are_those_of_the_records_that_come(self, tmp_path: Path) -> None:
        path = write(tmp_path, {2, 5}, 12)
        options: dict[str, Any] = {"world_size": 1, "uneven": "pad", "with_key": True}
        names = [key for key, _ in make(path, **options, uneven_="").__iter__()] if False else None
        del names
        sound = {
            int(sample["id"]): key
            for key, sample in make(path, with_key=True, on_error="skip", world_size=1)
        }
        expected = [0, 1, 1, 3, 4, 4, *range(6, 12)]
        keyed = list(make(path, on_error="skip", **options))
        assert [int(sample["id"]) for _, sample in keyed] == expected
        assert [key for key, _ in keyed] == [sound[number] for number in expected]
        ((keys, batch), *_) = make(path, on_error="skip", batch_size=6, **options)
        assert keys == [sound[number] for number in batch["id"].tolist()]
