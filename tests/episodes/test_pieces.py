"""Samples read the pieces of their records that they need, and check them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchrec_io as tio
from tests.support.examples import example_of, sequence_example_of
from tests.support.tfrecord import frame, write_tfrecord
from tests.support.web import web_server
from tests.support.wire import bytes_feature, entry, example

STEPS = 40
ARRAY_BYTES = 500
SCHEMA: dict[str, Any] = {
    "name": tio.FixedLenFeature([], "string"),
    "steps": {
        "id": tio.VarLenFeature("int64"),
        "array": tio.SequenceFeature(tio.RawFeature("uint8", shape=[ARRAY_BYTES])),
    },
}


def array(number: int, step: int) -> bytes:
    return bytes([number, step]) * (ARRAY_BYTES // 2)


def record(number: int, count: int = STEPS) -> bytes:
    values: dict[str, Any] = {
        "name": [b"%d" % number],
        "other": [bytes(3000)],  # not in the schema
        "steps/id": [100 * number + step for step in range(count)],
        "steps/array": [array(number, step) for step in range(count)],
    }
    return example_of(**values)


def write(path: Path, records: int = 3) -> Path:
    write_tfrecord(path, [record(number) for number in range(records)])
    return path


def dataset(path: Any, **options: Any) -> tio.TFRecordDataset:
    return tio.TFRecordDataset(path, SCHEMA, **{"batch_size": 8, **options})


def check(batches: Any) -> list[int]:
    """Check the arrays of samples, and return the ids of their steps."""
    ids = []
    for batch in batches:
        for own, name, value in zip(
            batch["steps"]["id"].tolist(),
            batch["name"].tolist(),
            batch["steps"]["array"],
            strict=True,
        ):
            assert (name, bytes(value.tolist())) == (b"%d" % (own // 100), array(*divmod(own, 100)))
            ids.append(own)
    return ids


ALL = [100 * number + step for number in range(3) for step in range(STEPS)]


def read_bytes(steps: Any) -> int:
    """Return the stored bytes that an epoch reads."""
    loader = tio.make_loader(steps, num_workers=0)
    list(loader)
    found: int = loader.stats().bytes
    return found


def test_a_sample_reads_little_of_its_record(tmp_path: Path) -> None:
    steps = dataset(write(tmp_path / "data"), batch_size=1).steps()
    one_array = ARRAY_BYTES + 3
    assert len(record(0)) > STEPS * one_array
    assert read_bytes(steps) < len(ALL) * (2 * one_array)
    whole = dataset(tmp_path / "data", batch_size=1, shuffle=tio.Shuffle(block=16, window=1))
    assert read_bytes(whole.steps()) > len(ALL) * len(record(0))  # blocks are read as a whole


def test_damage_is_found_where_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    steps = dataset(path, batch_size=1, on_error="skip").steps()
    assert check(steps) == ALL
    stamp = os.stat(path)
    stored = bytearray(path.read_bytes())
    at = stored.index(array(1, 7))
    stored[at + 100] ^= 1
    path.write_bytes(stored)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # as damage of a disk does
    assert check(steps) == [each for each in ALL if each != 107]
    assert steps.skipped == 1
    with pytest.raises(tio.CorruptRecordError, match=r"record 1"):
        list(steps.replace(on_error="raise").select([STEPS + 7]))


def test_a_changed_file_has_other_pieces(tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    assert check(dataset(path).steps()) == ALL
    records = [record(number, STEPS - number) for number in range(3)]
    write_tfrecord(path, records)
    assert len(check(dataset(path).steps())) == 3 * STEPS - 3


@pytest.mark.parametrize("damage", ["flip", "cut", "lengths"])
def test_cached_pieces_that_are_not_valid(tmp_path: Path, damage: str) -> None:
    path = write(tmp_path / "data")
    assert check(dataset(path).steps()) == ALL
    [cached] = [
        each
        for each in Path(os.environ["TORCHREC_IO_CACHE"]).rglob("*.tfsteps")
        if each.name.startswith("data-")
    ]
    stored = bytearray(cached.read_bytes())
    if damage == "cut":
        del stored[-40:]
    else:
        stored[-40 if damage == "flip" else 70] ^= 1
    cached.write_bytes(stored)
    assert check(dataset(path).steps()) == ALL


def test_the_cache_holds_few_bytes_for_an_element(tmp_path: Path) -> None:
    path = write(tmp_path / "data", 20)
    dataset(path).steps()
    [cached] = [
        each
        for each in Path(os.environ["TORCHREC_IO_CACHE"]).rglob("*.tfsteps")
        if each.name.startswith("data-")
    ]
    assert cached.stat().st_size <= 16 * 20 * STEPS


def test_compressed_files(tmp_path: Path) -> None:
    path = write(tmp_path / "plain")
    (tmp_path / "data.gz").write_bytes(gzip.compress(path.read_bytes()))
    steps = dataset(tmp_path / "data.gz", shuffle=True).steps()
    assert sorted(check(steps)) == ALL


def test_objects(tmp_path: Path) -> None:
    content = write(tmp_path / "data").read_bytes()
    with web_server() as server:
        steps = dataset(server.put("/data", content), shuffle=True).steps()
        assert sorted(check(steps)) == ALL


def test_workers_that_are_spawned(tmp_path: Path) -> None:
    steps = dataset(write(tmp_path / "data"), shuffle=True).steps()
    loader = tio.make_loader(steps, num_workers=2, multiprocessing_context="spawn")
    assert sorted(check(loader)) == ALL


class TestUnusualRecords:
    """Records that protobuf reads, but no pieces of which are known, are read as a whole."""

    def records(self) -> list[bytes]:
        values: dict[str, Any] = {"steps/id": [0, 1], "name": [b"0"]}
        ids = example_of(**values)
        arrays = entry("steps/array", bytes_feature(array(0, 0), array(0, 1)))
        twice = entry("steps/array", bytes_feature(b"x"))
        return [
            ids + example(arrays),  # two messages, which protobuf merges
            ids + example(twice, arrays),  # the last entry counts
            ids + example(arrays) + b"\x98\x06\x05",  # an unknown field
        ]

    def test_values(self, tmp_path: Path) -> None:
        write_tfrecord(tmp_path / "data", [*self.records(), record(1)])
        steps = dataset(tmp_path / "data", shuffle=True).steps({"array": (0, -1)}, outside="repeat")
        found = []
        for batch in steps:
            for own, value in zip(
                batch["steps"]["id"].tolist(), batch["steps"]["array"], strict=True
            ):
                number, step = divmod(own, 100)
                wanted = [array(number, step), array(number, max(0, step - 1))]
                assert [bytes(each.tolist()) for each in value] == wanted
                found.append(own)
        assert sorted(found) == sorted([0, 1] * 3 + [100 + step for step in range(STEPS)])


def test_a_bad_value_fails_its_samples_alone(tmp_path: Path) -> None:
    values = [array(0, step) for step in range(5)]
    values[2] = values[2][:-1]
    data = example_of(**{"name": [b"0"], "steps/id": [*range(5)], "steps/array": values})
    write_tfrecord(tmp_path / "data", [data])
    steps = dataset(tmp_path / "data", on_error="skip").steps()
    assert check(steps) == [0, 1, 3, 4]
    assert steps.skipped == 1
    with pytest.raises(tio.DecodeError, match=r"steps/array"):
        list(dataset(tmp_path / "data").steps())


def test_records_too_large_for_pieces_are_still_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data", 1)
    with pytest.raises(tio.RecordTooLargeError):
        list(dataset(path, max_record_bytes=1000).steps())


def test_steps_of_a_replaced_schema(tmp_path: Path) -> None:
    steps = dataset(write(tmp_path / "data")).steps()
    fewer = steps.replace(schema={"steps/array": SCHEMA["steps"]["array"]})
    assert [bytes(a.tolist()) for b in fewer for a in b["steps/array"]] == [
        array(*divmod(each, 100)) for each in ALL
    ]
    other = {"steps/array": tio.VarLenFeature("string"), "other": tio.FixedLenFeature([], "string")}
    found = [each for b in steps.replace(schema=other) for each in b["steps/array"].tolist()]
    assert found == [array(*divmod(each, 100)) for each in ALL]


def test_a_context_feature_with_the_key_of_a_list(tmp_path: Path) -> None:
    lists: dict[str, Any] = {key: [[array(0, step)] for step in range(3)] for key in ("a", "b")}
    (tmp_path / "data").write_bytes(frame(sequence_example_of({"a": [7]}, lists)))
    spec = SCHEMA["steps"]["array"]
    schema = tio.Schema(
        context={"number": tio.FixedLenFeature([], "int64", key="a")},
        sequence={"a": spec, "b": spec},
    )
    [batch] = tio.TFRecordDataset(tmp_path / "data", schema, batch_size=3).steps()
    assert batch["number"].tolist() == [7, 7, 7]
    for name in ("a", "b"):
        assert [bytes(each.tolist()) for each in batch[name]] == [array(0, i) for i in range(3)]


def test_sequence_examples(tmp_path: Path) -> None:
    lists: dict[str, Any] = {
        "array": [[array(0, step)] for step in range(STEPS)],
        "id": [[step] for step in range(STEPS)],
        "words": [[b"x"] * (step % 3) for step in range(STEPS)],
    }
    (tmp_path / "data").write_bytes(frame(sequence_example_of({"name": [b"0"]}, lists)))
    schema = tio.Schema(
        context={"name": tio.FixedLenFeature([], "string")},
        sequence={
            "array": SCHEMA["steps"]["array"],
            "id": tio.FixedLenSequenceFeature([], "int64"),
            "words": tio.VarLenFeature("string"),
        },
    )
    steps = tio.TFRecordDataset(tmp_path / "data", schema, batch_size=1, shuffle=True).steps()
    assert read_bytes(steps) < STEPS * (4 * ARRAY_BYTES)
    ids = []
    for batch in steps:
        [own] = batch["id"].tolist()
        assert bytes(batch["array"][0].tolist()) == array(0, own)
        assert batch["words"].tolist() == [[b"x"] * (own % 3)]
        assert batch["name"].tolist() == [b"0"]
        ids.append(own)
    assert sorted(ids) == [*range(STEPS)]
    assert np.unique(ids).size == STEPS
