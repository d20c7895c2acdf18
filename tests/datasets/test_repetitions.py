"""Random numbers of records that come several times in an epoch."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import SCHEMA, open_records, write_files
from tests.support.images import encoded, noise
from tests.support.states import through_json
from tests.support.tfrecord import write_tfrecord
from torchrec_io._parsing.record_random import RecordRandom

SIZES = [9, 0, 14]
COUNT = sum(SIZES)
FIRST = 9
LOST = 14
RECORD = 1 << 40

Pair = tuple[int, int]  # the id of a record, and the seed of its random numbers


def seeds(item: Any) -> Any:
    """Return the ids of samples, and the seeds of their random numbers; a transform."""
    if isinstance(item, tio.Sample):
        return {"id": int(item["id"]), "seed": tio.record_random(item).initial_seed()}
    found = [generator.initial_seed() for generator in tio.record_random(item)]
    return {"id": item["id"].tolist(), "seed": found}


def pairs_of(items: Any) -> list[Pair]:
    """Return the records of the items of :func:`seeds`, in order."""
    each = [(item["id"], item["seed"]) for item in items]
    batches = [pair if isinstance(pair[0], list) else ([pair[0]], [pair[1]]) for pair in each]
    return [pair for ids, found in batches for pair in zip(ids, found, strict=True)]


def draws(**options: Any) -> tio.Shuffle:
    return tio.Shuffle(weights=[1 + number % 4 for number in range(COUNT)], **options)


def dataset(paths: list[str], **options: Any) -> Any:
    return open_records(paths, **{"seed": 5, "transform": seeds, "batch_size": 4, **options})


def mixed(paths: list[str], inner: int = 0, **options: Any) -> Any:
    """Return a mixture of two datasets, one of which is a mixture itself if ``inner`` is given."""
    parts: list[Any] = [open_records(path, shuffle=True) for path in (paths[0], paths[2])]
    if inner:
        parts = [tio.mix(parts, repeat=[inner, 1]), open_records(paths[2])]
    mixture: Any = tio.mix
    return mixture(parts, **{"transform": seeds, "batch_size": 4, **options})


BLOCKS = tio.Shuffle(block=4, window=12)
CASES: dict[str, partial[Any]] = {
    "draws": partial(dataset, shuffle=draws(num_samples=60)),
    "draws by length": partial(dataset, shuffle=draws(), batch_tokens=9, batch_size=None),
    "repeat": partial(mixed, repeat=[5, 2]),
    "repeat, unlike": partial(mixed, repeat=[5, 2], source="part"),
    "repeat, nested": partial(mixed, inner=3, repeat=[2, 4]),
    "all_exhausted": partial(mixed, weights=[0.7, 0.3], stop="all_exhausted"),
    "endless": partial(mixed, weights=[0.7, 0.3], stop="endless", steps_per_epoch=20),
    "virtual epochs": partial(dataset, shuffle=True, steps_per_epoch=20),
    "virtual epochs of blocks": partial(dataset, shuffle=BLOCKS, steps_per_epoch=20),
}


@pytest.fixture(scope="module")
def whole(paths: list[str]) -> dict[str, list[Pair]]:
    return {name: pairs_of(make(paths)) for name, make in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_repeated_records_have_other_random_numbers(
    paths: list[str], whole: dict[str, list[Pair]], name: str
) -> None:
    found = whole[name]
    assert len({number for number, _ in found}) < len(found) == len({seed for _, seed in found})
    following = CASES[name](paths)
    following.set_epoch(1)
    assert not {seed for _, seed in found} & {seed for _, seed in pairs_of(following)}


@pytest.mark.parametrize("name", CASES)
def test_they_are_the_same_for_ranks_workers_and_resumed_runs(
    paths: list[str], whole: dict[str, list[Pair]], name: str
) -> None:
    make, found = CASES[name], whole[name]
    assert pairs_of(DataLoader(make(paths), batch_size=None, num_workers=2)) == found
    single = make(paths)
    iterator = iter(single)
    consumed = len(pairs_of(itertools.islice(iterator, 3)))
    other = make(paths)
    other.load_state_dict(through_json(single.state_dict()))
    assert pairs_of(other) == found[consumed:]
    if name == "draws by length":
        return
    is_virtual = "steps_per_epoch" in make.keywords
    steps = {"steps_per_epoch": 10} if is_virtual else {}
    ranks = [make(paths, rank=rank, world_size=2, uneven="keep", **steps) for rank in range(2)]
    assert sorted(pair for rank in ranks for pair in pairs_of(rank)) == sorted(found)
    if not is_virtual:
        assert pairs_of(make(paths, batch_size=None)) == found


def test_numbers_of_the_model(whole: dict[str, list[Pair]]) -> None:
    """The seeds are those of record numbers and repetitions."""
    random = RecordRandom(5, 0)
    for position, (number, seed) in enumerate(whole["draws"]):
        assert seed == random.seed_of(position * RECORD + number)
    for position, (number, seed) in enumerate(whole["virtual epochs"]):
        assert seed == random.seed_of(position // COUNT * RECORD + number)
    for name in ("repeat", "repeat, unlike"):
        counts: dict[int, int] = {}
        for number, seed in whole[name]:
            cycle = counts[number] = counts.get(number, -1) + 1
            assert seed == RecordRandom(0, 0).seed_of(cycle * RECORD + number)
        assert [counts[number] + 1 for number in range(COUNT)] == [5] * FIRST + [2] * SIZES[2]


def test_orders_without_repetitions_have_plain_numbers(paths: list[str]) -> None:
    options: list[dict[str, Any]] = [{"shuffle": True}, {"shuffle": draws(replacement=False)}]
    for each in options:
        found = pairs_of(dataset(paths, **each))
        assert found == [(number, RecordRandom(5, 0).seed_of(number)) for number, _ in found]
    assert len({*pairs_of(mixed(paths, weights="records", stop="each_once"))}) == COUNT


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_keys_and_values(tmp_path: Path, compression: str | None) -> None:
    paths = write_files(tmp_path, SIZES, compression)
    for name in ("repeat", "repeat, unlike", "virtual epochs of blocks", "draws"):
        names: dict[str, bytes] = {}
        for keys, batch in CASES[name](paths, transform=None, with_key=True):
            rows = zip(keys, batch["id"].tolist(), batch["name"], strict=True)
            for key, number, value in rows:
                assert value == f"record {number}".encode()
                assert key.startswith(f"{paths[0 if number < FIRST else 2]}:")
                assert names.setdefault(key, value) == value
        assert len(names) == len({*names.values()}) > FIRST


def damaged_files(folder: Path) -> list[str]:
    """Write files in which the record ``LOST`` is damaged."""
    paths = write_files(folder, SIZES)
    data = Path(paths[2]).read_bytes()
    Path(paths[2]).write_bytes(data.replace(b"record %d" % LOST, b"damaged!!"))
    return paths


@pytest.mark.parametrize("name", [name for name in CASES if name != "draws by length"])
def test_lost_records(tmp_path: Path, name: str) -> None:
    lost = CASES[name](damaged_files(tmp_path), on_error="skip")
    found = pairs_of(lost)
    assert lost.skipped > 0
    assert LOST not in {number for number, _ in found}
    # A replacement has the random numbers of the record that it repeats.
    is_replaced = "steps_per_epoch" in CASES[name].keywords
    assert len(found) - len({*found}) == (lost.skipped if is_replaced else 0)


def first_documents(batch: Any) -> Any:
    """Return the first document of each packed row, and the seed of the row; a transform."""
    ids = [row[0] for row in batch["record_numbers"].tolist()]
    return {"id": ids, "seed": [each.initial_seed() for each in tio.record_random(batch)]}


@pytest.mark.parametrize("mode", ["fit", "chunk"])
def test_packed_rows(paths: list[str], mode: Any) -> None:
    pack = tio.Pack(8, key="tokens", window=20, mode=mode)
    options: dict[str, Any] = {"pack": pack, "on_error": "skip", "transform": first_documents}
    for rows in (
        mixed(paths, repeat=[9, 7], **options),
        dataset(paths, shuffle=draws(num_samples=150), **options),
    ):
        found = pairs_of(rows)
        assert {number for number, _ in found} <= {n for n in range(COUNT) if n % 5 > 0}
        assert len({number for number, _ in found}) < len({seed for _, seed in found})
        if mode == "fit":  # each row begins with another document
            assert len({seed for _, seed in found}) == len(found)


def test_lost_documents(tmp_path: Path) -> None:
    paths = damaged_files(tmp_path)
    for mode in ("fit", "chunk"):
        pack: Any = tio.Pack(8, key="tokens", window=20, mode=mode)
        rows = mixed(paths, repeat=[9, 7], pack=pack, on_error="skip", transform=None)
        found = {n for batch in rows for row in batch["record_numbers"].tolist() for n in row}
        assert found == {n for n in range(COUNT) if n % 5 > 0 and n != LOST}
        assert rows.skipped == 1 + 7  # one error tells how many documents have no tokens


def test_crops(tmp_path: Path) -> None:
    images = [
        tio.encode_example({"image": encoded(noise(24, 20, seed=number)), "id": number})
        for number in range(3)
    ]
    write_tfrecord(tmp_path / "images", images)
    schema = {
        "image": tio.ImageFeature(size=(8, 8), augment=tio.RandomResizedCrop()),
        "id": SCHEMA["id"],
    }
    balanced = tio.TFRecordDataset(
        tmp_path / "images",
        schema,
        shuffle=tio.Shuffle(balance="id", num_samples=30),
        batch_size=7,
    )
    repeated = tio.mix(
        [tio.TFRecordDataset(tmp_path / "images", schema)], repeat=[10], batch_size=7
    )
    for each in (balanced, repeated):
        found = torch.cat([batch["image"] for batch in each])
        assert len(found) == len({image.numpy().tobytes() for image in found}) == 30


def test_steps(tmp_path: Path) -> None:
    """Samples of a record share its crop in a pass over the data."""
    pixels = noise(24, 20, seed=1)
    for number in range(2):
        steps = {"steps/id": [10 * number + each for each in range(5)]}
        images = {"steps/image": [encoded(pixels)] * 5}
        write_tfrecord(tmp_path / str(number), [tio.encode_example({**steps, **images})])
    crop = tio.ImageFeature(size=(8, 8), augment=tio.RandomResizedCrop())
    schema = {"steps": {"id": tio.VarLenFeature("int64"), "image": tio.SequenceFeature(crop)}}
    parts = [
        tio.TFRecordDataset(tmp_path / str(number), schema, shuffle=True).steps()
        for number in range(2)
    ]
    repeated = tio.mix(parts, repeat=[3, 4], batch_size=4)
    drawn = parts[1].replace(shuffle=tio.Shuffle(weights=[1.0] * 5, num_samples=12), batch_size=4)
    for each, crops in ((repeated, {0: 3, 1: 4}), (drawn, {1: 12})):
        found: dict[int, set[bytes]] = {}
        for batch in each:
            rows = zip(batch["steps"]["id"].tolist(), batch["steps"]["image"], strict=True)
            for step, image in rows:
                found.setdefault(step // 10, set()).add(image.numpy().tobytes())
        assert {number: len(images) for number, images in found.items()} == crops


def test_more_records_than_have_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write_files(tmp_path, SIZES)
    monkeypatch.setattr("torchrec_io._records.record_reader.MOST_RECORDS", COUNT)
    assert open_records(paths).num_records == COUNT
    with pytest.raises(ValueError, match=r"a dataset has at most 2\*\*40 records, got 32"):
        open_records([*paths, paths[0]])
