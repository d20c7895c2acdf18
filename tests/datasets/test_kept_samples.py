"""Samples while an iteration moves on, and the batches that DataLoader makes of them."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import SCHEMA, write_files
from tests.support.every_kind import SCHEMA as KINDS
from tests.support.every_kind import contents
from tests.support.every_kind import record as every_kind
from tests.support.tfrecord import write_tfrecord

COUNT = 700  # more than two blocks


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("kinds") / "kinds.tfrecord"
    write_tfrecord(path, [every_kind(i) for i in range(COUNT)])
    return str(path)


# ---- batches of DataLoader ----


@pytest.mark.parametrize(
    ("batch_size", "workers"), [(1, 0), (64, 0), (100, 0), (256, 0), (600, 0), (100, 1), (256, 1)]
)
def test_the_classic_line_makes_the_batches_of_the_dataset(
    kinds: str, batch_size: int, workers: int
) -> None:
    dataset = tio.TFRecordDataset(kinds, KINDS, shuffle=300)
    found = [*DataLoader(dataset, batch_size=batch_size, num_workers=workers)]
    wanted = [*tio.TFRecordDataset(kinds, KINDS, shuffle=300, batch_size=batch_size)]
    assert len(found) == len(wanted)
    for batch, other in zip(found, wanted, strict=True):
        assert type(batch) is tio.Batch
        assert batch.arena is not None
        assert contents(batch) == contents(other)


@pytest.mark.parametrize(
    "schema",
    [lambda data: tio.Sample({"size": len(data)}), lambda data: tio.parse_example(data, SCHEMA)],
    ids=["given", "parsed"],
)
def test_samples_of_a_function(tmp_path: Path, schema: Any) -> None:
    paths = write_files(tmp_path, [300])
    batches = list(DataLoader(tio.TFRecordDataset(paths, schema), batch_size=100))
    assert [batch.num_records for batch in batches] == [100, 100, 100]
    if "id" in batches[0]:
        assert torch.cat([batch["id"] for batch in batches]).tolist() == [*range(300)]


# ---- samples that are kept ----


def own_bytes(samples: list[tio.Sample], name: str) -> int:
    """Memory behind the values of samples, each piece counted once."""
    storages = {
        storage.data_ptr(): storage.nbytes()
        for sample in samples
        for storage in [sample[name].untyped_storage()]
    }
    return sum(storages.values())


@pytest.mark.parametrize("step", [1, 3, 50])
@pytest.mark.parametrize("with_key", [False, True])
def test_kept_samples_hold_little_more_than_their_rows(
    tmp_path: Path, step: int, with_key: bool
) -> None:
    size, kept_count = 2000, -(-10_000 // step)
    with tio.TFRecordWriter(tmp_path / "x") as writer:
        for i in range(500):
            writer.write({"x": (torch.arange(size) % 251 + i).to(torch.uint8).numpy().tobytes()})
    schema = {"x": tio.RawFeature("uint8", [size])}
    dataset = tio.TFRecordDataset(tmp_path / "x", schema, epochs=20, with_key=with_key)
    items = itertools.islice(dataset, 0, None, step)
    kept = [item[1] if with_key else item for item in items]
    assert len(kept) == kept_count
    # The last blocks may still be whole: 16 MiB at most, here 16 blocks.
    limit = 2 * size * kept_count if step == 1 else size * (kept_count + 17 * 256)
    assert own_bytes(kept, "x") <= limit
    for number, sample in enumerate(kept):
        first = int(sample["x"][0])
        assert first == (number * step) % 500 % 256


@pytest.mark.parametrize("room", [1, 10, 300, 600])
def test_values_stay_as_they_were(tmp_path: Path, room: int) -> None:
    """A shuffle buffer of samples, some of which were read before."""
    random = Random(room)
    write_tfrecord(tmp_path / "x", [every_kind(i) for i in range(300)])
    dataset = tio.TFRecordDataset(tmp_path / "x", KINDS, epochs=3)
    buffer: list[tuple[int, tio.Sample]] = []
    wanted = tio.parse_sequence_examples([every_kind(i) for i in range(300)], KINDS).samples()
    for number, sample in enumerate(itertools.islice(dataset, 900)):
        if random.random() < 0.2:
            sample["tokens"]
        buffer.append((number % 300, sample))
        if len(buffer) > room:
            other, left = buffer.pop(random.randrange(len(buffer)))
            assert left == wanted[other]
    batch = tio.collate([sample for _, sample in buffer])
    parsed = tio.parse_sequence_examples([every_kind(number) for number, _ in buffer], KINDS)
    assert contents(batch) == contents(parsed)


def test_another_thread_reads_samples_while_the_iteration_moves_on(tmp_path: Path) -> None:
    """A sample never shows the values of another row, whenever it copies its own."""
    with tio.TFRecordWriter(tmp_path / "x") as writer:
        for i in range(3000):
            writer.write({"x": [i] * 3000})
    dataset = tio.TFRecordDataset(tmp_path / "x", {"x": tio.FixedLenFeature([3000], "int64")})
    kept: list[tuple[int, tio.Sample]] = []
    wrong: list[int] = []
    is_done = threading.Event()

    def read() -> None:
        while not is_done.is_set():
            wrong.extend(i for i, sample in kept[-400:] if int(sample["x"][0]) != i)

    thread = threading.Thread(target=read)
    thread.start()
    for number, sample in enumerate(dataset):
        kept.append((number, sample))
    is_done.set()
    thread.join()
    assert not wrong
    assert all(int(sample["x"][-1]) == i for i, sample in kept)
