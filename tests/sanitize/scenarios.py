"""Scenarios that run in one process: threads that share datasets, parsers, indexes and memory.

A scenario is a function of the :class:`Files`, which runs one round of about a second. It checks
the data as well: a sanitizer detects bad accesses, not wrong results.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torchrec_io as tio
from tests.support import every_kind
from tests.support.datasets import SCHEMA, record

from .files import COUNT, SIZES, WIDTH, Files, wide_records

WIDE = {
    "id": tio.FixedLenFeature([], "int64"),
    "values": tio.FixedLenFeature([WIDTH], "float32"),
}
THREADS = 4


def in_threads(work: Callable[[int], object], count: int = THREADS) -> None:
    """Call a function in several threads at the same time, and raise the first exception."""
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001  # raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def ids_of(batches: Iterable[Any]) -> list[int]:
    """Return the sorted ids of batches."""
    return sorted(i for batch in batches for i in batch["id"].tolist())


def open_small(files: Files, **options: Any) -> Any:
    """Open the small files with two threads that load ahead."""
    options = {"batch_size": 16, "num_threads": 2, "shuffle": True, **options}
    return tio.TFRecordDataset(files.small, SCHEMA, **options)


# ---- iteration ----


def one_dataset(files: Files) -> None:
    """Iterate one dataset in several threads."""
    dataset = open_small(files)

    def iterate(_: int) -> None:
        assert ids_of(dataset) == list(range(COUNT))

    in_threads(iterate)


def many_datasets(files: Files) -> None:
    """Iterate datasets of different kinds in threads of their own."""

    def iterate(number: int) -> None:
        options: dict[str, Any] = {"batch_size": 32, "num_threads": 3}
        datasets = [
            open_small(files, seed=number),
            tio.TFRecordStream(files.compressed, SCHEMA, shuffle=100, **options),
            tio.TFRecordDataset(files.compressed, SCHEMA, shuffle=50, **options),
            tio.TFRecordDataset(files.wide, WIDE, **options),
        ]
        assert ids_of(datasets[number]) == list(range(COUNT))

    in_threads(iterate)


def one_iterator(files: Files) -> None:
    """Take from one iterator in several threads: each batch comes once, or the call is refused."""
    for stream in (False, True):
        opened: Any = tio.TFRecordStream if stream else tio.TFRecordDataset
        batches = iter(opened(files.small, SCHEMA, batch_size=8, num_threads=2))
        taken: list[Any] = []

        def take(_: int, batches: Any = batches, taken: list[Any] = taken) -> None:
            for _attempt in range(100):
                try:
                    taken.append(next(batches))
                except ValueError:  # another thread is in the generator
                    continue
                except StopIteration:
                    return

        in_threads(take)
        ids = ids_of(taken)
        assert len(set(ids)) == len(ids)


def left_halfway(files: Files) -> None:
    """Leave iterations halfway, in the thread that began them and in another one."""
    dataset = open_small(files)
    left: list[Any] = []

    def leave(number: int) -> None:
        for taken in range(6):
            batches = iter(dataset)
            for _ in range(taken):
                next(batches)
            if number % 2:
                left.append(batches)

    in_threads(leave)
    in_threads(lambda _: [left.pop() for _ in range(3)])
    gc.collect()


def held_batches(files: Files) -> None:
    """Read batches in one thread while others are loaded into memory that is free."""
    dataset = tio.TFRecordDataset(files.wide, WIDE, batch_size=64, num_threads=3)

    def iterate(number: int) -> None:
        held: list[Any] = []
        for batch in dataset:
            held.append(batch)
            if len(held) > number:
                check_wide(held.pop(0))
        for batch in held:
            check_wide(batch)

    in_threads(iterate)


def check_wide(batch: Any) -> None:
    """Check that each record has the values that were written."""
    assert torch.equal(batch["values"], batch["id"][:, None].expand(-1, WIDTH).float())


# ---- other uses of the core ----


def parsing(files: Files) -> None:
    """Parse Examples with one schema in several threads."""
    del files
    schema = tio.Schema({**SCHEMA, "values": tio.VarLenFeature("float32")})
    records = [record(i) for i in range(200)]
    wide = wide_records(100)

    def parse(number: int) -> None:
        for _ in range(5):
            batch = tio.parse_examples(records[number:], schema)
            assert batch["id"].tolist() == list(range(number, 200))
            check_wide(tio.parse_examples(wide, WIDE))
            assert int(tio.parse_example(records[number], schema)["id"]) == number
            with pytest.raises(tio.DecodeError):
                tio.parse_examples([records[0][:-1]], schema)

    in_threads(parse)


def every_column(files: Files) -> None:
    """Parse, collate, gather and pickle batches with columns of every kind, images included."""
    expected = every_kind.contents(every_kind.make_batch(12))
    shared = every_kind.make_batch(12)
    dataset = tio.TFRecordDataset(files.kinds, every_kind.SCHEMA, batch_size=7, num_threads=2)

    def use(number: int) -> None:
        assert every_kind.contents(every_kind.make_batch(12)) == expected
        assert every_kind.contents(tio.collate(shared.samples())) == expected
        assert every_kind.contents(pickle.loads(pickle.dumps(shared))) == expected
        shared.select([number, 3, 3, 11])
        tio.pad_collate(shared.select([5, number]).samples())
        assert ids_of(dataset) == list(range(60))

    in_threads(use)


def map_style(files: Files) -> None:
    """Read records by number in several threads, from one map-style dataset."""
    dataset = tio.TFRecordMapDataset(files.small, SCHEMA)

    def read(number: int) -> None:
        order = np.random.default_rng(number).permutation(COUNT)[:150].tolist()
        for i in order[:30]:
            assert int(dataset[i]["id"]) == i
        for first in range(0, len(order), 30):
            samples: Any = dataset.__getitems__(order[first : first + 30])
            assert [int(sample["id"]) for sample in samples] == order[first : first + 30]

    in_threads(read)


def indexes(files: Files) -> None:
    """Look records up in indexes while datasets that share the files begin epochs."""
    dataset = open_small(files)
    saved = tio.RecordIndex.build(files.small[0]).save(files.folder / "saved.tfidx")
    index = tio.RecordIndex.load(saved, files.small[0])

    def use(number: int) -> None:
        for epoch in range(4):
            if number == 0:
                dataset.set_epoch(epoch)
                assert ids_of(dataset) == list(range(COUNT))
            elif number == 1:
                next(iter(dataset))
            elif number == 2:
                starts, ends = index.locate(np.arange(SIZES[0]))
                assert np.array_equal(starts, index.offsets)
                assert np.array_equal(starts[1:], ends[:-1])
            else:
                built = tio.RecordIndex.build(files.small[epoch % 3])
                assert len(built.offsets) == SIZES[epoch % 3]

    in_threads(use)


def surveys(files: Files) -> None:
    """Infer schemas in several threads, each of which reads the files in several others."""
    expected = tio.Schema.infer(files.small).findings

    def infer(number: int) -> None:
        paths = [*files.small, *files.compressed] if number % 2 else files.small
        found = tio.Schema.infer(paths, None)
        assert found == tio.Schema(SCHEMA)
        if number % 2 == 0:
            assert found.findings == expected

    in_threads(infer)


def selections(files: Files) -> None:
    """Scan files for records that meet a condition, in several threads."""
    dataset = open_small(files, shuffle=False)

    def select(number: int) -> None:
        picked = dataset.where(lambda batch: batch["id"] % THREADS == number, features=["id"])
        assert ids_of(picked) == list(range(number, COUNT, THREADS))
        chosen = dataset.select(range(number, COUNT, 7)).take(20)
        assert ids_of(chosen) == list(range(number, COUNT, 7))[:20]

    in_threads(select)


def writing(files: Files) -> None:
    """Encode and write records in several threads, and read them back."""

    def write(number: int) -> None:
        path = files.folder / f"written-{number}"
        with tio.TFRecordWriter(path) as writer:
            for data in wide_records(50):
                writer.write(data)
        for batch in tio.TFRecordStream(path, WIDE, batch_size=50):
            check_wide(batch)

    in_threads(write)


def damage(files: Files) -> None:
    """Read damaged files in several threads: the damage is reported, and nothing else."""
    intact = Path(files.wide).read_bytes()

    def read(number: int) -> None:
        random = np.random.default_rng(number)
        path = files.folder / f"damaged-{number}"
        for _ in range(5):
            data = bytearray(intact[: int(random.integers(1, len(intact)))])
            data[int(random.integers(len(data)))] ^= 255
            path.write_bytes(data)
            for batch in tio.TFRecordDataset(
                path, WIDE, batch_size=32, num_threads=2, on_error="skip", index="auto"
            ):
                check_wide(batch)
            with contextlib.suppress(tio.DecodeError):
                tio.parse_examples([bytes(data[12:4000])], WIDE)

    in_threads(read)
