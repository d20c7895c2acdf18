"""Random crops and colors depend only on record and epoch, not on how a dataset is read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.images.test_color_jitter import STRONG, jittered, key_of
from tests.support.images import encoded, noise, record_of
from tests.support.tfrecord import write_tfrecord
from torchrec_io._images.random_crop import generator_of
from torchrec_io._parsing.record_random import RecordRandom

COUNT = 23
ARRAYS = [noise(20 + number % 3, 24, seed=number) for number in range(COUNT)]
IMAGES = [encoded(array) for array in ARRAYS]
SCHEMA = {
    "id": tio.FixedLenFeature([], "int64"),
    "image": tio.ImageFeature(
        size=(6, 5), augment=tio.RandomResizedCrop(), jitter=STRONG, layout="HWC"
    ),
}


def write(folder: Path, images: list[bytes] = IMAGES) -> list[str]:
    """Write two files of these images."""
    paths = [folder / "a.tfrecord", folder / "b.tfrecord"]
    records = [record_of(image, number) for number, image in enumerate(images)]
    write_tfrecord(paths[0], records[:9])
    write_tfrecord(paths[1], records[9:])
    return [str(path) for path in paths]


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return write(tmp_path)


def by_record(batches: Iterable[Any]) -> dict[int, bytes]:
    """Return the pixels of each record."""
    found: dict[int, bytes] = {}
    for batch in batches:
        for number, image in zip(batch["id"].tolist(), batch["image"], strict=True):
            assert number not in found
            found[number] = image.numpy().tobytes()
    return found


def expected(epoch: int, seed: int, numbers: Iterable[int] = range(COUNT)) -> dict[int, bytes]:
    """Return the documented result, which depends on record, epoch, seed and name only."""
    made = {}
    for number in numbers:
        rng = generator_of(RecordRandom(seed, epoch).key(np.int64(number), "image"))
        height, width = ARRAYS[number].shape[:2]
        crop = tio.RandomResizedCrop()(height, width, rng)
        box = tio.ImageFeature(crop=crop[:4], size=(6, 5), layout="HWC")
        [image] = tio.parse_examples([record_of(IMAGES[number])], {"image": box})["image"]
        pixels = (image.flip(1) if crop.flip else image).numpy()
        made[number] = jittered(pixels, STRONG, key_of(number, seed, epoch)).tobytes()
    return made


@pytest.mark.parametrize(
    ("batch_size", "shuffle"),
    [(1, False), (4, True), (23, 5), (40, tio.Shuffle(block=3, window=2))],
)
def test_the_same_for_any_batch_size_and_order(
    paths: list[str], batch_size: int, shuffle: Any
) -> None:
    dataset = tio.TFRecordDataset(
        paths, SCHEMA, batch_size=batch_size, shuffle=shuffle, seed=3, num_threads=1
    )
    dataset.set_epoch(2)
    assert by_record(dataset) == expected(2, 3)


def test_epochs_and_seeds_have_different_crops(paths: list[str]) -> None:
    first = expected(0, 3)
    for other in (expected(1, 3), expected(0, 4)):
        assert sum(first[number] != other[number] for number in first) > COUNT - 3
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=5, seed=3, epochs=2)
    batches = list(dataset)
    assert by_record(batches[:5]) == first
    assert by_record(batches[5:]) == expected(1, 3)


def test_the_same_from_workers(paths: list[str]) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=4, shuffle=True, seed=3)
    loader = DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context="forkserver"
    )
    assert by_record(loader) == expected(0, 3)


def test_the_same_as_samples(paths: list[str]) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, shuffle=True, seed=3)
    loader = DataLoader(dataset, batch_size=4, collate_fn=tio.collate, num_workers=2)
    assert by_record(loader) == expected(0, 3)


def test_the_same_for_another_rank(paths: list[str]) -> None:
    dataset = tio.TFRecordDataset(
        paths, SCHEMA, batch_size=4, shuffle=True, seed=3, rank=1, world_size=2
    )
    found = by_record(dataset)
    assert 0 < len(found) < COUNT
    assert found == expected(0, 3, found)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, 4])
def test_the_same_when_resumed_after_every_step(paths: list[str], batch_size: int | None) -> None:
    def make() -> tio.TFRecordDataset:
        dataset = tio.TFRecordDataset(
            paths, SCHEMA, batch_size=batch_size, shuffle=True, seed=3, epochs=2
        )
        dataset.set_epoch(5)
        return dataset

    def pixels(items: Iterable[Any]) -> list[bytes]:
        return [item["image"].numpy().tobytes() for item in items]

    whole = pixels(make())
    for step in range(len(whole)):
        dataset = make()
        iterator = iter(dataset)
        for _ in range(step):
            next(iterator)
        state = dataset.state_dict()
        del iterator
        rest = make()
        rest.load_state_dict(state)
        assert pixels(rest) == whole[step:]


def test_the_same_with_damaged_records(tmp_path: Path) -> None:
    bad = (2, 3, 11, 22)
    images = [b"no image" if number in bad else image for number, image in enumerate(IMAGES)]
    dataset = tio.TFRecordDataset(
        write(tmp_path, images), SCHEMA, batch_size=4, seed=3, on_error="skip"
    )
    batches = list(dataset)
    assert dataset.skipped == len(bad)
    # Batches are refilled with later records, which are decoded again.
    assert [len(batch["id"]) for batch in batches][:2] == [4, 4]
    valid = [number for number in range(COUNT) if number not in bad]
    assert by_record(batches) == expected(0, 3, valid)


def test_crops_of_a_stream_depend_on_file_and_record_number(paths: list[str]) -> None:
    def read(**options: Any) -> dict[int, bytes]:
        dataset = tio.TFRecordStream(paths, SCHEMA, seed=3, **options)
        return by_record(dataset)

    found = read(batch_size=4)
    assert sorted(found) == list(range(COUNT))
    assert read(batch_size=7) == found
    assert read(batch_size=3, shuffle=6) == found
    dataset = tio.TFRecordStream(paths, SCHEMA, seed=3, batch_size=4)
    assert by_record(DataLoader(dataset, batch_size=None, num_workers=2)) == found
    dataset.set_epoch(1)
    other = by_record(dataset)
    assert sum(found[number] != other[number] for number in found) > COUNT - 3


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_map_style_records_change_each_time(
    paths: list[str], workers: int, persistent: bool
) -> None:
    def epochs(seed: int) -> list[dict[int, bytes]]:
        torch.manual_seed(seed)
        options: Any = {"num_workers": workers, "persistent_workers": persistent and workers > 0}
        loader = DataLoader(tio.TFRecordMapDataset(paths, SCHEMA), batch_size=4, **options)
        return [by_record(loader) for _ in range(3)]

    found = epochs(1)
    for number in range(COUNT):
        assert len({epoch[number] for epoch in found}) == 3
    assert epochs(1) == found
    assert epochs(2)[0] != found[0]


def test_map_style_records_that_are_loaded_together_differ(paths: list[str]) -> None:
    samples = tio.TFRecordMapDataset(paths, SCHEMA, with_key=True)
    loaded = samples.__getitems__([5, 20, 5])
    assert [key for key, _ in loaded[::2]] == [samples[5][0]] * 2
    images = [sample["image"].numpy().tobytes() for _, sample in loaded]
    assert len({*images, samples[5][1]["image"].numpy().tobytes()}) == 4


def test_parsed_records_have_no_epoch() -> None:
    batch = tio.parse_examples(
        [record_of(image, number) for number, image in enumerate(IMAGES)], SCHEMA
    )
    assert by_record([batch]) == expected(0, 0)


def test_mixture_uses_its_own_seed(paths: list[str]) -> None:
    one, two = (tio.TFRecordDataset(path, SCHEMA, batch_size=4, seed=9) for path in paths)
    mixed = tio.mix([one, two], weights=[0.5, 0.5], seed=3, stop="each_once")
    assert by_record(mixed) == expected(0, 3)


# ---- custom functions ----


def top_left(height: int, width: int, rng: np.random.Generator) -> tio.Crop:
    return tio.Crop(0, width // 2, int(rng.integers(1, height + 1)), 1)


def test_custom_function_in_a_worker_that_gets_it_pickled(paths: list[str]) -> None:
    schema = {**SCHEMA, "image": tio.ImageFeature(size=(6, 5), augment=top_left)}
    dataset = tio.TFRecordDataset(paths, schema, batch_size=4, seed=3)
    loader = DataLoader(
        dataset, batch_size=None, num_workers=1, multiprocessing_context="forkserver"
    )
    assert by_record(loader) == by_record(dataset.replace())


def test_random_numbers_depend_on_every_input() -> None:
    def first(seed: int, epoch: int, record: Any, feature: str) -> float:
        return generator_of(RecordRandom(seed, epoch).key(record, feature)).random()

    place = np.array([(1, 2, 99)], "i4,i8,i8")[0]
    moved = np.array([(1, 2, 98)], "i4,i8,i8")[0]  # the offset does not identify a record
    asked = [
        (0, 0, np.int64(0), "x"),
        (1, 0, np.int64(0), "x"),
        (0, 1, np.int64(0), "x"),
        (0, 0, np.int64(1), "x"),
        (0, 0, np.int64(0), "y"),
        (-(2**70), 0, np.int64(0), "x"),
        (0, 0, np.int64(2**62), "x"),
        (0, 0, place, "x"),
    ]
    assert len({first(*one) for one in asked}) == len(asked)
    assert first(0, 0, place, "x") == first(0, 0, moved, "x")
    # These values must never change, so that old runs can be resumed.
    assert first(3, 2, np.int64(7), "image") == 0.3286207554374272
