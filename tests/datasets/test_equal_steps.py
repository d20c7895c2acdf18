"""Lost records are replaced in their places, so that all ranks yield the planned steps."""

from __future__ import annotations

import functools
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.datasets import SCHEMA, ids_of, record
from tests.support.states import through_json
from tests.support.tfrecord import write_tfrecord
from torchrec_io._datasets import replacement

COUNT = 61


def write(folder: Path, bad: Collection[int], count: int = COUNT) -> str:
    path = str(folder / "a.tfrecord")
    write_tfrecord(path, [b"\xff" if i in bad else record(i) for i in range(count)])
    return path


@functools.cache
def sound_file(folder: Path) -> str:
    return write(folder, ())


def make(path: str, **options: Any) -> tio.TFRecordDataset:
    return tio.TFRecordDataset(path, SCHEMA, **{"seed": 5, "rank": 0, "world_size": 2, **options})


def replaced(
    planned: list[list[int]], bad: Collection[int], reach: int, at_once: int = 1
) -> list[list[int]]:
    """Return the batches of a rank as the rule has them, up to one that cannot be completed.

    Samples are batches of one record, of which ``at_once`` are loaded together.
    """
    flat = [number for batch in planned for number in batch]
    found: list[list[int]] = []
    begin = 0
    for first in range(0, len(planned), at_once):
        sizes = [len(batch) for batch in planned[first : first + at_once]]
        end = begin + sum(sizes)
        numbers = []
        for place in range(begin, end):
            earlier = flat[max(0, begin - reach) : place][::-1]
            valid = [
                n for n in [flat[place], *earlier, *flat[place + 1 : end + reach]] if n not in bad
            ]
            if not valid:
                return found
            numbers.append(valid[0])
        found += [numbers[at : at + sizes[0]] for at in range(0, len(numbers), sizes[0])]
        begin = end
    return found


def read(dataset: Any) -> list[Any]:
    """Return the batches of a dataset up to a batch that cannot be completed."""
    found: list[Any] = []
    with suppress(tio.DecodeError):
        for batch in dataset:
            ids = batch["id"].tolist()
            found.append(ids if isinstance(ids, list) else [ids])
    return found


BAD = st.sets(st.integers(0, COUNT - 1)) | st.integers(0, 50).map(
    lambda begin: set(range(begin, begin + 11))
)


# ---- the rule ----


@given(
    bad=BAD,
    size=st.integers(1, 40),
    uneven=st.sampled_from(["drop", "pad"]),
    ranks=st.integers(1, 4).flatmap(
        lambda world: st.tuples(st.integers(0, world - 1), st.just(world))
    ),
    batch_size=st.none() | st.integers(1, 9),
    shuffle=st.sampled_from([False, True, tio.Shuffle(block=4, window=9), "lanes"]),
    num_threads=st.sampled_from([1, 2]),
)
def test_each_lost_record_is_replaced_by_its_nearest(
    tmp_path_factory: pytest.TempPathFactory,
    bad: set[int],
    size: int,
    ranks: tuple[int, int],
    **options: Any,
) -> None:
    folder = tmp_path_factory.mktemp("rule")
    options |= {"rank": ranks[0], "world_size": ranks[1], "epochs": 2}
    if options["shuffle"] == "lanes":
        own = 1 if (options["batch_size"] or 2) % 2 else 2
        options["shuffle"] = tio.Shuffle(block=4, window=9, lanes=own * ranks[1])
    plans = make(sound_file(folder), **options)
    planned = [[number] if isinstance(number, int) else number for number in ids_of(plans)]
    half = len(planned) // 2
    # Samples are loaded several at a time, and none of these comes if one cannot be replaced.
    at_once = plans._session.partition.unit_batch_size if options["batch_size"] is None else 1
    expected = replaced(planned[:half], bad, size, at_once)
    if len(expected) == half:
        expected += replaced(planned[half:], bad, size, at_once)
    dataset = make(write(folder, bad), on_error="skip", **options)
    with mock.patch.object(replacement, "REACH", size):
        assert read(dataset) == expected
    if len(expected) == len(planned):
        wrong = sum(number in bad for batch in planned for number in batch)
        assert dataset.repeated == wrong
        assert dataset.skipped == wrong


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"name": SCHEMA["name"], "tokens": SCHEMA["tokens"]},
        {"tokens": tio.FixedLenSequenceFeature([], "int64", allow_missing=True)},
    ],
)
def test_values_out_of_range(tmp_path: Path, others: dict[str, Any]) -> None:
    path = write(tmp_path, ())
    schema = {"id": tio.FixedLenFeature([], "int64", valid_range=(20, 100)), **others}
    for rank in range(2):
        options: dict[str, Any] = {"batch_size": 4, "rank": rank, "uneven": "drop"}
        planned = ids_of(make(path, **options))
        dataset = make(path, **options).replace(schema=schema, on_error="skip")
        batches = list(dataset)
        assert ids_of(batches) == replaced(planned, set(range(20)), 1000)
        assert dataset.repeated == sum(each < 20 for batch in planned for each in batch)
        for batch, ids in zip(batches, ids_of(batches), strict=True):
            if "name" in others:
                assert list(batch["name"]) == [f"record {number}".encode() for number in ids]
            if "tokens" in others:
                rows = zip(batch["tokens"], ids, strict=True)
                assert all(row[: n % 5].tolist() == [*range(n % 5)] for row, n in rows)


def test_the_default_of_uneven_replaces_with_several_ranks(tmp_path: Path) -> None:
    path = write(tmp_path, {0, 5, 6}, 16)
    options: dict[str, Any] = {"batch_size": 4, "on_error": "skip"}
    assert ids_of(make(path, **options)) == [[1, 1, 2, 3], [8, 9, 10, 11]]
    assert ids_of(make(path, rank=1, **options)) == [[4, 4, 4, 7], [12, 13, 14, 15]]
    assert ids_of(make(path, uneven="keep", **options)) == [[1, 2, 3, 8], [9, 10, 11]]
    alone = make(path, world_size=1, **options)
    assert ids_of(alone) == [[1, 2, 3, 4], [7, 8, 9, 10], [11, 12, 13, 14], [15]]
    assert alone.repeated == 0


@pytest.mark.parametrize("bad", [range(1, 2499), range(1, 2500)])
def test_at_most_a_thousand_records_are_read_on_each_side(tmp_path: Path, bad: range) -> None:
    path = write(tmp_path, bad, 2510)
    dataset = make(path, world_size=1, uneven="drop", batch_size=300, on_error="skip")
    if len(bad) == 2498:
        seen = [number for batch in ids_of(dataset) for number in batch]
        assert seen == [0] * 1200 + [2499] * 1299 + list(range(2499, 2510))
        return
    with pytest.raises(tio.DecodeError) as caught:
        list(dataset)
    assert caught.value.record == 1200
    assert (
        "rank 0 of 1 has no valid record to repeat in place of this one: the 1,000 records "
        "before it and the 1,299 records after it in the rank's order of epoch 0 are lost"
    ) in caught.value.reason


# ---- kinds of datasets ----


def test_keys_are_those_of_the_records_that_come(tmp_path: Path) -> None:
    path = write(tmp_path, {2, 5}, 12)
    options: dict[str, Any] = {"world_size": 1, "with_key": True, "on_error": "skip"}
    keys = {int(sample["id"]): key for key, sample in make(path, **options)}
    expected = [0, 1, 1, 3, 4, 4, *range(6, 12)]
    options["uneven"] = "pad"
    for given_key, sample in make(path, **options):
        assert given_key == keys[int(sample["id"])]
    assert [int(sample["id"]) for _, sample in make(path, **options)] == expected
    for batch_keys, batch in make(path, batch_size=5, **options):
        assert batch_keys == [keys[number] for number in batch["id"].tolist()]


def test_a_repeat_of_a_functions_result_is_an_object_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path, {1, 4}, 8)

    def decode(data: bytes) -> list[bytes]:
        if data == b"\xff":
            raise ValueError("damaged")
        return [data]

    options: dict[str, Any] = {"on_error": "skip", "rank": 0, "world_size": 2}
    (items,) = tio.TFRecordDataset(path, decode, batch_size=4, **options)
    assert items == [[record(0)], [record(0)], [record(2)], [record(3)]]
    assert items[0] is not items[1]
    samples = list(tio.TFRecordDataset(path, decode, **options, num_threads=1))
    assert len(samples) == 4


def test_batches_by_length(tmp_path: Path) -> None:
    """Lost records are left out; a batch that lost all of them holds one replacement."""
    options: dict[str, Any] = {
        "batch_tokens": 12,
        "batch_size": 3,
        "length_key": [number % 5 for number in range(40)],
        "shuffle": True,
        "uneven": "drop",
        "world_size": 2,
    }
    planned = ids_of(make(write(tmp_path, (), 40), **options))
    bad = {*planned[0], *planned[2][1:], *planned[3], *planned[4]}
    without = [[number for number in batch if number not in bad] for batch in planned]
    expected = list(without)
    expected[0] = [expected[1][0]]
    expected[3] = expected[4] = [expected[2][-1]]
    (tmp_path / "bad").mkdir()
    damaged = write(tmp_path / "bad", bad, 40)
    dataset = make(damaged, on_error="skip", **options)
    assert ids_of(dataset) == expected
    assert len(expected) == len(dataset)
    assert dataset.repeated == 3
    kept = make(damaged, on_error="skip", **{**options, "uneven": "keep"})
    assert ids_of(kept) == [batch for batch in without if batch]


BAD_ENDS = {*range(3), *range(30, 38), 44, 45, 50, 51, 52, 58, 60}


def test_another_number_of_ranks(tmp_path: Path) -> None:
    """Positions do not shift, so the state of a rank with lost records works for all."""
    path = write(tmp_path, BAD_ENDS)
    options: dict[str, Any] = {"batch_size": 2, "uneven": "pad", "on_error": "skip"}
    dataset = make(path, **options)
    next(iter(dataset))
    state = through_json(dataset.state_dict())
    assert state["ahead"] == 0
    rest = []
    for rank in range(3):
        other = make(path, **{**options, "rank": rank, "world_size": 3})
        other.load_state_dict(state)
        rest += ids_of(other)
    seen = {number for batch in rest for number in batch}
    assert seen >= set(range(4, COUNT)) - BAD_ENDS


def test_replacements_are_logged_once_an_epoch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path, {2, 5, 6}, 16)
    dataset = make(path, world_size=1, uneven="drop", batch_size=4, on_error=lambda _: None)
    list(dataset.replace(epochs=2))
    assert [each.getMessage() for each in caplog.records] == [
        f"repeated 3 records in epoch {epoch} in place of lost ones, so that the number of steps "
        "stays as planned"
        for epoch in range(2)
    ]
    caplog.clear()
    iterator = iter(dataset)
    next(iterator)
    iterator.close()  # type: ignore[attr-defined]
    assert len(caplog.records) == 1
    assert "repeated 1 record in epoch 0" in caplog.text
