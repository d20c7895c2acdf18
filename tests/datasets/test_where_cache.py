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
from tests.support.datasets import SCHEMA, record, write_files
from tests.support.examples import example_of
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


def ids_of(dataset: Any) -> list[int]:
    return [number for batch in dataset for number in batch["id"].tolist()]


def make(paths: Any, **options: Any) -> tio.TFRecordDataset:
    return tio.TFRecordDataset(paths, options.pop("schema", SCHEMA), batch_size=10, **options)


def entries(cache: Path) -> list[Path]:
    return sorted(path for path in cache.iterdir() if path.suffix != ".tfidx")


AGAIN = "the predicate of 'few' is evaluated again: "
CHANGED = " changed since the result was cached"


class TestHits:
    def test_the_second_time_nothing_is_read(
        self, paths: list[str], cache: Path, evaluated: Any
    ) -> None:
        first = make(paths).where(Counted(30), cache_key="few")
        assert evaluated() == (COUNT, [])
        [entry] = entries(cache)
        assert entry.name.startswith("few-")
        assert entry.suffix == ".tfsel"
        again = make(paths, shuffle=True).where(Counted(30), cache_key="few")
        assert evaluated() == (0, [])
        assert ids_of(first) == list(range(30))
        assert sorted(ids_of(again)) == list(range(30))

    def test_options_that_do_not_matter(self, paths: list[str], evaluated: Any) -> None:
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

    def test_the_key_stands_for_the_predicate(self, paths: list[str], evaluated: Any) -> None:
        make(paths).where(Counted(30), cache_key="few")
        assert make(paths).where(Counted(31), cache_key="few").num_records == 30
        assert evaluated() == (COUNT, [])

    def test_each_key_has_its_entry(self, paths: list[str], cache: Path, evaluated: Any) -> None:
        keys = ["a", "b", "a/b", "a-b", "../a", "é" * 300, " ", "\udcff"]
        for number, key in enumerate(keys):
            make(paths).where(Counted(number), cache_key=key)
        evaluated()
        assert len(entries(cache)) == len(keys)
        for number, key in enumerate(keys):
            assert make(paths).where(Counted(number), cache_key=key).num_records == number
        assert evaluated()[0] == 0

    def test_no_record_is_chosen_or_all_are(self, paths: list[str], evaluated: Any) -> None:
        for below in (0, COUNT):
            for _ in range(2):
                part = make(paths).where(Counted(below), cache_key=str(below))
                assert part.num_records == below
        empty = ["where() chose none of 100 records"] * 2
        assert evaluated() == (2 * COUNT, empty)


class TestMisses:
    """Each way in which a result does not fit: it is made again, and a line says why."""

    def check(self, evaluated: Any, again: Callable[[], Any], reason: str, count: int) -> None:
        evaluated()
        again()
        assert evaluated() == (count, [AGAIN + reason])
        again()
        assert evaluated() == (0, [])

    def test_the_records_to_choose_from(self, paths: list[str], evaluated: Any) -> None:
        make(paths).where(Counted(30), cache_key="few")
        self.check(
            evaluated,
            lambda: make(paths, split="[:50%]").where(Counted(30), cache_key="few"),
            f"the records to choose from{CHANGED}",
            50,
        )
        # As many records, but others.
        self.check(
            evaluated,
            lambda: make(paths, split="[50%:]").where(Counted(90), cache_key="few"),
            f"the records to choose from{CHANGED}",
            50,
        )

    def test_the_schema(self, paths: list[str], evaluated: Any) -> None:
        make(paths).where(Counted(30), cache_key="few")
        other = {**SCHEMA, "name": tio.VarLenFeature("string")}
        changes: list[Callable[[], Any]] = [
            lambda: make(paths, schema=other).where(Counted(30), cache_key="few"),
            lambda: make(paths).where(Counted(30), cache_key="few", features=["id"]),
            lambda: make(paths, verify_crc=False).where(Counted(30), cache_key="few"),
        ]
        for change in changes:
            self.check(evaluated, change, f"the schema{CHANGED}", COUNT)

    def test_the_content_of_a_file(self, paths: list[str], evaluated: Any) -> None:
        make(paths).where(Counted(30), cache_key="few")
        write_tfrecord(Path(paths[1]), [record(number) for number in range(40)])
        self.check(
            evaluated,
            lambda: make(paths).where(Counted(30), cache_key="few"),
            f"the files{CHANGED}",
            COUNT,
        )
        assert make(paths).where(Counted(30), cache_key="few").num_records == 60

    def test_the_time_of_a_file(self, paths: list[str], evaluated: Any) -> None:
        """Fingerprints of files do not cover their middle."""
        make(paths).where(Counted(30), cache_key="few")
        os.utime(paths[0], ns=(1, 1))
        self.check(
            evaluated,
            lambda: make(paths).where(Counted(30), cache_key="few"),
            f"the files{CHANGED}",
            COUNT,
        )

    def test_other_files(self, paths: list[str], evaluated: Any) -> None:
        make(paths).where(Counted(30), cache_key="few")
        self.check(
            evaluated,
            lambda: make(paths[:1]).where(Counted(30), cache_key="few"),
            f"the files and the records to choose from{CHANGED}",
            60,
        )

    def test_records_that_were_skipped(self, tmp_path: Path, evaluated: Any) -> None:
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


class TestDamage:
    def replace(self, cache: Path, change: Callable[[bytes], bytes]) -> Path:
        [entry] = entries(cache)
        entry.write_bytes(change(entry.read_bytes()))
        return entry

    @pytest.mark.parametrize(
        "change",
        [
            lambda _: b"",
            lambda data: data[:-1],
            lambda data: data + b"\0",
            lambda data: b"x" + data[1:],
            lambda data: data[:9] + bytes([data[9] ^ 1]) + data[10:],
            lambda data: data[:-20] + bytes([data[-20] ^ 1]) + data[-19:],
            lambda data: data[:-1] + bytes([data[-1] ^ 1]),
            lambda data: data[:56] + struct.pack("<Q", 2**63) + data[64:],
            lambda data: data[:56] + struct.pack("<Q", 99) + data[64:],
            lambda data: data[:56] + struct.pack("<Q", 1000) + data[64:] + bytes(112),
        ],
    )
    def test_a_damaged_entry_is_made_again(
        self, paths: list[str], cache: Path, evaluated: Any, change: Any
    ) -> None:
        make(paths).where(Counted(30), cache_key="few")
        evaluated()
        entry = self.replace(cache, change)
        assert ids_of(make(paths).where(Counted(30), cache_key="few")) == list(range(30))
        assert evaluated() == (COUNT, [f"{AGAIN}the cached result is damaged ({entry})"])
        assert ids_of(make(paths).where(Counted(30), cache_key="few")) == list(range(30))
        assert evaluated() == (0, [])

    def test_an_entry_that_is_no_file(self, paths: list[str], cache: Path, evaluated: Any) -> None:
        make(paths).where(Counted(30), cache_key="few")
        [entry] = entries(cache)
        entry.unlink()
        entry.mkdir()
        evaluated()
        assert make(paths).where(Counted(30), cache_key="few").num_records == 30
        number, [reason, unsaved] = evaluated()
        assert number == COUNT
        assert reason.startswith(f"{AGAIN}the cached result cannot be read (")
        assert unsaved.startswith("the result of a predicate cannot be cached: ")

    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
    def test_an_error_leaves_nothing(
        self, paths: list[str], cache: Path, error: type[BaseException]
    ) -> None:
        def fail(batch: Any) -> Any:
            if int(batch["id"][-1]) == COUNT - 1:
                raise error
            return batch["id"] < 3

        with pytest.raises(error):
            make(paths).where(fail, cache_key="few")
        assert entries(cache) == []
        with pytest.raises(TypeError):
            make(paths).where(lambda batch: batch["id"], cache_key="few")
        assert entries(cache) == []

    def test_a_folder_that_cannot_be_written(
        self, paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evaluated: Any
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("TORCHREC_IO_CACHE", str(tmp_path / "file" / "cache"))
        for _ in range(2):
            assert make(paths).where(Counted(30), cache_key="few").num_records == 30
            number, messages = evaluated()
            assert number == COUNT
            assert messages[-1].startswith("the result of a predicate cannot be cached: ")


class Noted:
    """A predicate that notes each pass in a file."""

    def __init__(self, log: Path) -> None:
        self.log = str(log)

    def __call__(self, batch: Any) -> Any:
        if 0 in batch["id"]:
            with open(self.log, "a") as file:
                file.write("pass\n")
        return batch["id"] % 3 == 0


def choose(paths: list[str], cache: str, log: Path, barrier: Any, results: Any) -> None:
    os.environ["TORCHREC_IO_CACHE"] = cache  # the fork server may have that of another test
    torch.set_num_threads(1)
    dataset = make(paths, rank=0, world_size=1)
    barrier.wait()
    results.put(ids_of(dataset.where(Noted(log), cache_key="few")))


def test_processes_at_the_same_time(paths: list[str], cache: Path, tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    barrier, results = context.Barrier(2), context.Queue()
    log = tmp_path / "log"
    processes = [
        context.Process(target=choose, args=(paths, str(cache), log, barrier, results))
        for _ in range(2)
    ]
    for process in processes:
        process.start()
    found = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
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
