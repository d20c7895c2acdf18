"""Results of predicates in the cache: when they are used, and when the pass is made again."""

from __future__ import annotations

import logging
import multiprocessing
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

import torchrec_io as tio
from tests.support.datasets import SCHEMA, numbers_of, record, write_files
from tests.support.examples import example_of
from tests.support.processes import results_at_once
from tests.support.tfrecord import write_tfrecord

COUNT = 100


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return write_files(tmp_path, [60, 40])


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TORCHREC_IO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Counted:
    """A predicate that counts the records it is called with."""

    seen: ClassVar[list[int]] = []

    def __init__(self, below: int) -> None:
        self.below = below

    def __call__(self, batch: Any) -> Any:
        self.seen.append(batch.num_records)
        return batch["id"] < self.below


@pytest.fixture
def evaluated(caplog: pytest.LogCaptureFixture) -> Callable[[], tuple[int, list[str]]]:
    """Return a function that returns the number of records seen and the messages, since it was."""
    caplog.set_level(logging.INFO, "torchrec_io")
    Counted.seen.clear()

    def since() -> tuple[int, list[str]]:
        found = sum(Counted.seen), [each for each in caplog.messages if "index" not in each]
        Counted.seen.clear()
        caplog.clear()
        return found

    return since


def make(paths: Any, **options: Any) -> tio.TFRecordDataset:
    return tio.TFRecordDataset(paths, options.pop("schema", SCHEMA), batch_size=10, **options)


def entries(cache: Path) -> list[Path]:
    return sorted(path for path in cache.iterdir() if path.suffix != ".tfidx")


AGAIN = "the predicate of 'few' is evaluated again: "
CHANGED = " changed since the result was cached"


# ---- hits ----


def test_the_second_time_nothing_is_read(paths: list[str], cache: Path, evaluated: Any) -> None:
    first = make(paths).where(Counted(30), cache_key="few")
    assert evaluated() == (COUNT, [])
    [entry] = entries(cache)
    assert entry.name.startswith("few-")
    assert entry.suffix == ".tfpass"
    again = make(paths, shuffle=True).where(Counted(30), cache_key="few")
    assert evaluated() == (0, [])
    assert numbers_of(first) == list(range(30))
    assert sorted(numbers_of(again)) == list(range(30))


def test_options_that_do_not_matter(paths: list[str], evaluated: Any) -> None:
    make(paths).where(Counted(30), cache_key="few")
    evaluated()
    for options in (
        {"shuffle": tio.Shuffle(block=4, window=8), "seed": 3},
        {"rank": 1, "world_size": 3, "uneven": "drop"},
        {"epochs": None, "on_error": "skip", "num_threads": 1, "with_key": True},
    ):
        part = make(paths, **options).where(Counted(30), cache_key="few")
        assert part.num_records == 30
    numbered = tio.TFRecordMapDataset(paths, SCHEMA).where(Counted(30), cache_key="few")
    assert len(numbered) == 30
    assert evaluated() == (0, [])


def test_the_key_stands_for_the_predicate(paths: list[str], evaluated: Any) -> None:
    make(paths).where(Counted(30), cache_key="few")
    assert make(paths).where(Counted(31), cache_key="few").num_records == 30
    assert evaluated() == (COUNT, [])


def test_each_key_has_its_entry(paths: list[str], cache: Path, evaluated: Any) -> None:
    keys = ["a", "b", "a/b", "a-b", "../a", "é" * 300, " ", "\udcff"]
    for number, key in enumerate(keys):
        make(paths).where(Counted(number), cache_key=key)
    evaluated()
    assert len(entries(cache)) == len(keys)
    for number, key in enumerate(keys):
        assert make(paths).where(Counted(number), cache_key=key).num_records == number
    assert evaluated()[0] == 0


def few(paths: Any, below: int = 30, **options: Any) -> tio.TFRecordDataset:
    features = options.pop("features", None)
    return make(paths, **options).where(Counted(below), cache_key="few", features=features)


OTHER_SCHEMA = {**SCHEMA, "name": tio.VarLenFeature("string")}


@pytest.mark.parametrize(
    ("options", "changed", "count"),
    [
        ({"split": "[:50%]"}, "the records to choose from", 50),
        ({"schema": OTHER_SCHEMA}, "the schema", COUNT),
        ({"features": ["id"]}, "the schema", COUNT),
        ({"verify_crc": False}, "the schema", COUNT),
    ],
)
def test_other_options_need_another_pass(
    paths: list[str], evaluated: Any, options: dict[str, Any], changed: str, count: int
) -> None:
    few(paths)
    evaluated()
    for expected in ((count, [f"{AGAIN}{changed}{CHANGED}"]), (0, [])):
        few(paths, **options)
        assert evaluated() == expected


def test_other_files_need_another_pass(paths: list[str], evaluated: Any) -> None:
    few(paths)
    evaluated()
    few(paths[:1])
    assert evaluated() == (60, [f"{AGAIN}the files and the records to choose from{CHANGED}"])
    few(paths[1:], 90)  # as many records as in the next line, but others
    evaluated()
    changes: list[Callable[[], Any]] = [
        lambda: write_tfrecord(Path(paths[1]), [record(number) for number in range(40)]),
        lambda: os.utime(paths[1], ns=(1, 1)),  # fingerprints do not cover the middle of a file
    ]
    for change in changes:
        change()
        for expected in ((40, [f"{AGAIN}the files{CHANGED}"]), (0, [])):
            assert few(paths[1:], 90).num_records == 40
            assert evaluated() == expected


def test_records_that_were_skipped(tmp_path: Path, evaluated: Any) -> None:
    path = write_tfrecord(tmp_path / "bad", [record(0), b"\xff", record(2)])
    skipping = make(path, on_error="skip")
    for _ in range(2):
        assert skipping.where(Counted(30), cache_key="few").num_records == 2
    assert skipping.skipped == 1
    assert evaluated()[0] == 2
    with pytest.raises(tio.DecodeError):
        make(path).where(Counted(30), cache_key="few")
    [reason] = evaluated()[1]
    assert reason.startswith(f"{AGAIN}the cached result leaves out 1 record with errors")


def flipped(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


@pytest.mark.parametrize(
    "change",
    [
        lambda _: b"",
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: flipped(data, 0),
        lambda data: flipped(data, 9),
        lambda data: flipped(data, -20),
        lambda data: data[:56] + struct.pack("<Q", 2**63) + data[64:],
        lambda data: data[:56] + struct.pack("<Q", 1000) + data[64:] + bytes(112),
    ],
)
def test_a_damaged_entry_is_made_again(
    paths: list[str], cache: Path, evaluated: Any, change: Any
) -> None:
    few(paths)
    evaluated()
    [entry] = entries(cache)
    entry.write_bytes(change(entry.read_bytes()))
    for expected in ((COUNT, [f"{AGAIN}the cached result is damaged ({entry})"]), (0, [])):
        assert numbers_of(few(paths)) == list(range(30))
        assert evaluated() == expected


def test_an_entry_that_is_no_file(paths: list[str], cache: Path, evaluated: Any) -> None:
    few(paths)
    [entry] = entries(cache)
    entry.unlink()
    entry.mkdir()
    evaluated()
    assert few(paths).num_records == 30
    number, [reason, unsaved] = evaluated()
    assert number == COUNT
    assert reason.startswith(f"{AGAIN}the cached result cannot be read (")
    assert unsaved.startswith("the predicate of 'few' cannot be cached: ")


def test_an_error_leaves_nothing(paths: list[str], cache: Path) -> None:
    def interrupt(_: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(paths).where(interrupt, cache_key="few")
    with pytest.raises(TypeError):
        make(paths).where(lambda batch: batch["id"], cache_key="few")
    assert entries(cache) == []


def choose(paths: list[str], cache: Path, log: Path, barrier: Any) -> list[int]:
    os.environ["TORCHREC_IO_CACHE"] = str(cache)  # the fork server may have that of another test
    torch.set_num_threads(1)
    dataset = make(paths, rank=0, world_size=1)

    def note_pass(batch: Any) -> Any:
        if 0 in batch["id"]:
            with log.open("a") as file:
                file.write("pass\n")
        return batch["id"] % 3 == 0

    barrier.wait()
    return numbers_of(dataset.where(note_pass, cache_key="few"))


def test_processes_at_the_same_time(paths: list[str], cache: Path, tmp_path: Path) -> None:
    barrier = multiprocessing.get_context("forkserver").Barrier(2)
    log = tmp_path / "log"
    found = results_at_once("forkserver", choose, [(paths, cache, log, barrier)] * 2)
    assert found == [list(range(0, COUNT, 3))] * 2
    assert log.read_text() == "pass\n"
    assert len(entries(cache)) == 1


def test_steps_of_episodes(tmp_path: Path, evaluated: Any) -> None:
    episodes = [
        example_of(id=[number], **{"steps/x": list(range(number % 4))}) for number in range(10)
    ]
    path = write_tfrecord(tmp_path / "episodes", episodes)
    schema = {
        "id": tio.FixedLenFeature([], "int64"),
        "steps/x": tio.VarLenFeature("int64"),
    }
    whole = tio.TFRecordDataset(path, schema)
    for _ in range(2):
        assert whole.where(Counted(5), cache_key="few").num_records == 5
    assert evaluated()[0] == 10
    steps = whole.steps()
    for _ in range(2):
        assert steps.where(Counted(5), cache_key="few").num_records == 6
    number, messages = evaluated()
    assert number == 13
    assert f"{AGAIN}the schema and the records to choose from{CHANGED}" in messages
