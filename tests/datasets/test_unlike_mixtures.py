"""Mixtures of datasets that differ in keys, formats, steps, or transforms of their own."""

from __future__ import annotations

import gzip
import itertools
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import SCHEMA, numbers_of, record, write_files
from tests.support.examples import example_of
from tests.support.images import encoded, noise
from tests.support.tfrecord import frame, write_tfrecord
from tests.support.web import web_server

FIRST, SECOND = 70, 30  # ids 0..69 and 1000..1029
# The stored features of SCHEMA, under other names.
OTHER = {
    "label": tio.FixedLenFeature([], "string", key="name"),
    "number": tio.FixedLenFeature([], "int32", key="id"),
    "tokens": SCHEMA["tokens"],
}
ALL: dict[str, Any] = {"weights": [3, 1], "seed": 2, "stop": "each_once"}


def to_common(sample: Any) -> Any:
    values = {"id": sample["number"].long(), "name": sample["label"], "tokens": sample["tokens"]}
    return tio.Sample(values, sample.ragged)


Paths = tuple[list[str], str]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    folder = tmp_path_factory.mktemp("unlike")
    second = str(folder / "second.tfrecord")
    write_tfrecord(second, [record(1000 + i) for i in range(SECOND)])
    return write_files(folder, [40, 30]), second


# Options of the second dataset; the first one has only the schema.
KINDS: dict[str, dict[str, Any]] = {
    "alike": {},
    "transforms": {"schema": OTHER, "transform": to_common},
    "limits": {"verify_crc": False, "max_record_bytes": 5000},
}


def mixed(paths: Paths, kind: str = "transforms", **options: Any) -> Any:
    first = tio.TFRecordDataset(paths[0], SCHEMA, shuffle=True, seed=3)
    second = tio.TFRecordDataset(paths[1], **{"schema": SCHEMA, "shuffle": 9, **KINDS[kind]})
    return tio.mix([first, second], **{**ALL, "batch_size": 8, **options})


def values_of(batch: Any) -> Any:
    return batch["id"].tolist(), batch["name"].tolist(), batch["tokens"].tolist()


# ---- order and values ----


@pytest.mark.parametrize("kind", ["transforms", "limits"])
def test_order_and_values_are_those_of_an_alike_mixture(paths: Paths, kind: str) -> None:
    alike, unlike = mixed(paths, "alike", epochs=2), mixed(paths, kind, epochs=2)
    batches = list(unlike)
    assert [*map(values_of, batches)] == [*map(values_of, alike)]
    assert sorted(numbers_of(batches[:13])) == [*range(FIRST), *range(1000, 1000 + SECOND)]
    assert all(batch.arena is not None for batch in batches)
    assert (len(unlike), unlike.num_records) == (26, FIRST + SECOND)
    samples = mixed(paths, kind, batch_size=None)
    assert numbers_of(samples) == numbers_of(batches[:13])
    assert numbers_of(tio.make_loader(samples, batch_size=8)) == numbers_of(batches[13:])
    alike.set_epoch(0)
    assert len([*itertools.islice(alike, 3)]) == 3
    unlike.load_state_dict(alike.state_dict())
    assert numbers_of(unlike) == numbers_of(batches[3:])


def test_other_keys_and_scales_need_no_transform(tmp_path: Path) -> None:
    parts, schemas = [], []
    for number, (key, offset) in enumerate((("action", 0.0), ("joints", 100.0))):
        values = [float(100 * number + i) for i in range(20)]
        path = tmp_path / key
        write_tfrecord(path, [example_of(**{key: [value]}) for value in values])
        scaled = tio.Normalize(offset=(offset,), scale=(2.0,))
        schemas.append({"action": tio.FixedLenFeature([1], "float32", key=key, normalize=scaled)})
        parts.append(tio.TFRecordDataset(path, schemas[-1]))
    dataset = tio.mix(parts, **ALL, batch_size=8)
    assert dataset.schema == tio.Schema(schemas[0])
    values = [value for batch in dataset for value in batch["action"].flatten().tolist()]
    assert sorted(values) == sorted([i / 2 for i in range(20)] * 2)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch_size", [4, None])
def test_each_record_once_for_ranks_and_workers(
    paths: Paths, workers: int, batch_size: int | None
) -> None:
    seen = []
    for rank in range(2):
        layout: dict[str, Any] = {"rank": rank, "world_size": 2, "uneven": "keep"}
        dataset = mixed(paths, source="part", batch_size=batch_size, **layout)
        for item in tio.make_loader(pickle.loads(pickle.dumps(dataset)), num_workers=workers):
            numbers = torch.as_tensor(item["id"]).reshape(-1).tolist()
            sources = torch.as_tensor(item["part"]).reshape(-1).tolist()
            assert sources == [int(number >= 1000) for number in numbers]
            seen += numbers
    assert sorted(seen) == [*range(FIRST), *range(1000, 1000 + SECOND)]


def test_other_record_formats(paths: Paths, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("a\nb\n")
    lines = tio.TextLineDataset(tmp_path / "lines")
    records = tio.TFRecordDataset(paths[1], None)
    assert "4 records" not in repr(tio.mix([lines, records], **ALL))
    [batch] = tio.mix([lines, records.take(2)], **ALL, batch_size=4)
    assert sorted(batch) == sorted([b"a", b"b", record(1000), record(1001)])


def test_remote_and_compressed_parts(paths: Paths, tmp_path: Path) -> None:
    data = b"".join(frame(record(1000 + i)) for i in range(SECOND))
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(data))
    with web_server() as server:
        urls = [server.put("/plain", data), server.put("/packed", packed.read_bytes())]
        shuffles: list[Any] = [True, tio.Shuffle(block=4, window=8)]
        paths_of: list[Any] = [packed, *urls]
        second = [
            tio.TFRecordDataset(path, OTHER, transform=to_common, shuffle=shuffle)
            for path in paths_of
            for shuffle in shuffles
        ]
        dataset = tio.mix(
            [tio.TFRecordDataset(paths[0], SCHEMA), *second],
            **{**ALL, "weights": [7] + [3] * 6},
            batch_size=16,
        )
        for _ in range(2):
            expected = [*range(FIRST), *sorted([*range(1000, 1000 + SECOND)] * 6)]
            assert sorted(numbers_of(dataset)) == expected


# ---- steps ----


def write_robot(path: Path, counts: list[int], camera: str, action: str, first: int) -> str:
    """Write episodes with a camera and actions, whose values are the numbers of their steps."""
    numbers = itertools.count(first)
    episodes = []
    for count in counts:
        steps = [*itertools.islice(numbers, count)]
        values: dict[str, Any] = {
            f"steps/{camera}": [encoded(noise(4, 6, seed=step)) for step in steps],
            f"steps/{action}": [float(step) for step in steps],
        }
        episodes.append(example_of(**values))
    write_tfrecord(path, episodes)
    return str(path)


def robot(path: str, camera: str, action: str, window: int, transform: Any) -> Any:
    schema = {
        f"steps/{camera}": tio.SequenceFeature(tio.ImageFeature(size=(2, 3))),
        f"steps/{action}": tio.VarLenFeature("float32"),
    }
    dataset = tio.TFRecordDataset(path, schema, shuffle=True, transform=transform)
    return dataset.steps(range(window))


def of_slow(sample: Any) -> Any:
    return {"image": sample["steps/wrist"][0], "action": sample["steps/action"]}


def of_fast(sample: Any) -> Any:
    """Bring windows of 4 steps to half the rate."""
    return {"image": sample["steps/front_left"][0], "action": sample["steps/joints"][::2]}


def test_steps_of_other_keys_and_rates(tmp_path: Path) -> None:
    slow = write_robot(tmp_path / "slow", [5, 0, 3], "wrist", "action", 0)
    fast = write_robot(tmp_path / "fast", [9, 4], "front_left", "joints", 100)
    parts = [
        robot(slow, "wrist", "action", 2, of_slow),
        robot(fast, "front_left", "joints", 4, of_fast),
    ]
    dataset = tio.mix(parts, **ALL, batch_size=4, source="robot")
    batches = list(dataset)
    assert len(batches) == len(dataset) == 4
    rows: list[Any] = []
    for batch in batches:
        assert batch["image"].shape[1:] == (3, 2, 3)
        assert batch["image"].dtype == torch.uint8
        rows += zip(batch["robot"].tolist(), batch["action"].tolist(), strict=True)
    # Windows of 2 steps of the first, and every other of 4 steps of the second.
    starts = [(0, n, n + 1) for n in (0, 1, 2, 3, 5, 6)]
    starts += [(1, n, n + 2) for n in (*range(100, 106), 109)]
    assert sorted(rows) == [(robot, [first, second]) for robot, first, second in starts]
    alone = {float(item["action"][0]): item["image"] for part in parts for item in part}
    for image, action in zip(batches[1]["image"], batches[1]["action"], strict=True):
        assert torch.equal(image, alone[float(action[0])])
    dataset.resume(epoch=0, batches=1)
    assert torch.equal(next(iter(dataset))["image"], batches[1]["image"])


def test_steps_that_are_drawn(tmp_path: Path) -> None:
    """Goals do not depend on workers, and masks of missing steps are columns as others."""
    parts = []
    for number, camera in enumerate(("wrist", "front")):
        path = write_robot(tmp_path / camera, [6, 9], camera, "action", 100 * number)
        schema = {
            "image": tio.SequenceFeature(tio.ImageFeature(size=(2, 3)), key=f"steps/{camera}"),
            "goal": tio.VarLenFeature("float32", key="steps/action"),
            "action": tio.VarLenFeature("float32", key="steps/action"),
        }
        steps: dict[str, Any] = {"image": 0, "goal": tio.LaterStep(), "action": range(3)}
        dataset = tio.TFRecordDataset(path, {"steps": schema}, shuffle=True)
        parts.append(dataset.steps(steps, outside="repeat"))
    mixed = tio.mix(parts, **ALL, batch_size=4, source="robot")
    found = []
    for workers in (0, 2):
        mixed.set_epoch(0)
        batches = list(DataLoader(mixed, batch_size=None, num_workers=workers))
        found.append([batch["steps"]["goal"].tolist() for batch in batches])
        for batch in batches:
            own, goal = batch["steps"]["action"][:, 0], batch["steps"]["goal"]
            assert ((own == goal) == ~batch.valid["steps/action"][:, 1]).all()  # at the end
            assert ((own >= 100) == batch["robot"].bool()).all()
    assert found[0] == found[1]
    list(mixed)
    assert [batch["steps"]["goal"].tolist() for batch in mixed] != found[0]  # of other epochs


# ---- random numbers ----


def with_noise(sample: Any) -> Any:
    noise = torch.randint(1 << 40, [], generator=tio.record_random(sample))
    return {"id": sample.get("id", sample.get("number")).long(), "noise": noise}


def noise_of(dataset: Any, **options: Any) -> list[Any]:
    items = DataLoader(dataset, batch_size=None, **options)
    pairs = [zip(item["id"].tolist(), item["noise"].tolist(), strict=True) for item in items]
    return [pair for each in pairs for pair in each]


def test_random_numbers_of_records_are_those_of_the_mixture(paths: Paths) -> None:
    def batch_noise(batch: Any) -> Any:
        found = [torch.randint(1 << 40, [], generator=g) for g in tio.record_random(batch)]
        return {"id": batch["id"], "noise": torch.stack(found)}

    parts = [
        tio.TFRecordDataset(path, schema, transform=with_noise)
        for path, schema in zip(paths, (SCHEMA, OTHER), strict=True)
    ]
    dataset = tio.mix(parts, **ALL, batch_size=8)
    found = noise_of(dataset)
    alike = [tio.TFRecordDataset(path, SCHEMA) for path in paths]
    expected = noise_of(tio.mix(alike, **ALL, batch_size=8, transform=batch_noise))
    assert found == expected
    assert len({noise for _, noise in found}) == FIRST + SECOND
    dataset.set_epoch(0)
    assert noise_of(dataset, num_workers=2) == found
    assert noise_of(dataset) != found  # of the next epoch


# ---- the number of the dataset ----


def test_source_of_alike_datasets(paths: Paths) -> None:
    plain = list(mixed(paths, "alike"))
    batches = list(mixed(paths, "alike", source="part"))
    assert [*map(values_of, batches)] == [*map(values_of, plain)]
    for batch in batches:
        assert (batch["part"].dtype, [*batch][-1]) == (torch.int64, "part")
        assert batch["part"].tolist() == [int(n >= 1000) for n in batch["id"].tolist()]
    for sample in mixed(paths, "alike", source="part", batch_size=None):
        assert int(sample["part"]) == (int(sample["id"]) >= 1000)
        assert tio.record_random(sample) is not None


def test_the_transform_of_the_mixture_follows(paths: Paths) -> None:
    def change(item: Any) -> Any:
        return item["id"] + 10000 * item["part"]

    options: dict[str, Any] = {"source": "part", "transform": change}
    expected = {*range(FIRST), *range(11000, 11000 + SECOND)}
    batches = [each.tolist() for each in mixed(paths, **options)]
    assert {*itertools.chain(*batches)} == expected
    assert {int(each) for each in mixed(paths, batch_size=None, **options)} == expected


@pytest.mark.parametrize(
    ("kind", "source", "reason"),
    [
        ("alike", "id", "source must be a new name, but a dataset has a feature 'id'"),
        ("transforms", "id", "source must be a new name, but a dataset has a feature 'id'"),
        ("alike", "", "source must be the name of a column, or None, got ''"),
        ("alike", 1, "source must be the name of a column, or None, got 1"),
    ],
)
def test_names_that_are_refused(paths: Paths, kind: str, source: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        mixed(paths, kind, source=source)


def test_source_needs_dicts(paths: Paths) -> None:
    for transform, name in ((None, "part"), (lambda data: {"size": len(data)}, "size")):
        own = [tio.TFRecordDataset(path, None, transform=transform) for path in paths]
        for size in (None, 4):
            dataset = tio.mix(own, weights=[1, 1], source=name, batch_size=size)
            with pytest.raises(tio.TransformError, match="dicts without this name, got") as caught:
                next(iter(dataset))
            assert caught.value.record is not None
    with pytest.raises(ValueError, match=r"a mixture with source.* has no packed rows"):
        mixed(paths, "alike", source="part", pack=tio.Pack(8, key="tokens"))


# ---- errors ----


def failing(paths: Paths, own: Any, **options: Any) -> Any:
    """Return a mixture whose second dataset has a transform of its own."""
    first = tio.TFRecordDataset(paths[0], {"id": SCHEMA["id"]})
    second = tio.TFRecordDataset(paths[1], SCHEMA, transform=own)
    return tio.mix([first, second], **{**ALL, "batch_size": 8, **options})


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (torch.tensor(1, dtype=torch.float32), "float32 1.0 of dataset 1 and int64 "),
        (torch.zeros(7, dtype=torch.int64), "int64[7] of dataset 1 and int64 "),
        (b"x", "b'x' of dataset 1 and int64 "),
        (None, "no such value of dataset 1 and int64 "),
    ],
)
def test_samples_that_differ_in_form(paths: Paths, value: Any, found: str) -> None:
    values = {"x": torch.zeros(1)} if value is None else {"id": value}
    with pytest.raises(tio.TransformError, match=re.escape(f"got {found}")) as caught:
        list(failing(paths, lambda _: values))
    assert caught.value.path == paths[1]
    assert caught.value.feature == "id"
    assert paths[0][0] in str(caught.value)
    assert "can bring its samples to the form of the others" in str(caught.value)


def test_other_results_than_dicts(paths: Paths) -> None:
    for size, reason in ((8, "joined to a batch: samples must be a list of dicts"), (1, "dicts")):
        with pytest.raises(tio.TransformError, match=reason) as caught:
            list(failing(paths, numbers_of_one, batch_size=size))
        assert caught.value.path == paths[1]
    samples = failing(paths, numbers_of_one, batch_size=None, transform=number_of)
    assert {*samples} == {*range(FIRST), *range(1000, 1000 + SECOND)}


def numbers_of_one(sample: Any) -> int:
    return int(sample["id"])


def number_of(item: Any) -> int:
    return item if isinstance(item, int) else int(item["id"])


def test_transforms_that_fail(paths: Paths) -> None:
    with pytest.raises(tio.TransformError, match="raised UnknownNameError: 'a'") as caught:
        list(failing(paths, lambda sample: sample["a"], on_error="skip"))
    assert (caught.value.path, caught.value.record) == (paths[1], 0)
    counts = itertools.count()
    with pytest.raises(tio.TransformError, match=r"cannot be joined .* the same keys"):
        list(failing(paths, lambda sample: {**sample, str(next(counts)): 1}))


def test_datasets_without_transforms_must_be_alike(paths: Paths) -> None:
    first = tio.TFRecordDataset(paths[0], SCHEMA)
    advice = r"[\s\S]*A transform of each dataset without batch_size, .* its samples, can bring"
    for schema in ({"id": SCHEMA["id"]}, OTHER):
        with pytest.raises(ValueError, match=f"differ in schema: {advice}"):
            tio.mix([first, tio.TFRecordDataset(paths[1], schema)], weights=[1, 1])
    wide = {**SCHEMA, "id": tio.FixedLenFeature([], "int32", key="id")}
    with pytest.raises(ValueError, match=f"differ in the spec of 'id': {advice}"):
        tio.mix([first, tio.TFRecordDataset(paths[1], wide)], weights=[1, 1])
    of_batches = [
        tio.TFRecordDataset(path, SCHEMA, batch_size=8, transform=transform)
        for path, transform in zip(paths, (len, repr), strict=True)
    ]
    with pytest.raises(ValueError, match=f"differ in transform: {advice}"):
        tio.mix(of_batches, weights=[1, 1])
    same = tio.mix([of_batches[0], of_batches[0].replace()], weights=[1, 1])
    assert next(iter(same)) == len(SCHEMA)  # called with the mixed batches


def test_damage_names_the_file_and_is_skipped(paths: Paths, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    frames = [bytearray(frame(record(2000 + i))) for i in range(8)]
    frames[2][20] ^= 1
    frames[5] = bytearray(frame(b"\xff"))
    bad.write_bytes(b"".join(frames))
    errors: list[tio.TorchRecIOError] = []
    parts = [
        tio.TFRecordDataset(paths[0], SCHEMA),
        tio.TFRecordDataset(bad, OTHER, transform=to_common),
    ]
    good = [*range(FIRST), *(2000 + i for i in range(8) if i not in (2, 5))]
    dataset = tio.mix(parts, **ALL, on_error=errors.append, batch_size=8)
    seen = numbers_of(dataset)
    assert sorted(seen) == good
    assert sorted((error.path, error.record) for error in errors) == [(str(bad), 2), (str(bad), 5)]
    assert {type(error) for error in errors} == {tio.CorruptRecordError, tio.DecodeError}
    for size in (None, 1, 3):
        dataset = tio.mix(parts, **ALL, on_error="skip", batch_size=size, source="part")
        assert sorted(numbers_of(dataset)) == good
        assert dataset.skipped == 2
    padded = tio.mix(
        parts, **ALL, on_error="skip", batch_size=3, rank=0, world_size=1, uneven="pad", epochs=2
    )
    assert {*numbers_of(padded)} == {*good}
    with pytest.raises(tio.CorruptRecordError, match="does not match its checksum") as caught:
        list(tio.mix(parts, **ALL, batch_size=8))
    assert (caught.value.path, caught.value.record) == (str(bad), 2)
    dataset = tio.mix(parts, **ALL, on_error="skip", batch_size=8, with_key=True)
    for keys, batch in dataset:
        for key, number in zip(keys, batch["id"].tolist(), strict=True):
            assert key.startswith(str(bad) if number >= 2000 else paths[0][number >= 40])


def test_each_dataset_is_examined_for_names(paths: Paths, caplog: pytest.LogCaptureFixture) -> None:
    schema = {**OTHER, "labels": tio.VarLenFeature("int64")}
    second = tio.TFRecordDataset(paths[1], schema, transform=to_common)
    list(tio.mix([tio.TFRecordDataset(paths[0], SCHEMA), second], **ALL, batch_size=8))
    [line] = [each for each in caplog.messages if "has the feature" in each]
    assert line.startswith("none of the first 30 records has the feature 'labels'")


def test_description(paths: Paths) -> None:
    assert repr(mixed(paths)) == (
        f"MixedDataset(3 files, first {paths[0][0]!r}, 100 records, 2 schemas, "
        "weights=[3.0, 1.0], stop='each_once', batch_size=8, epoch 0)"
    )
