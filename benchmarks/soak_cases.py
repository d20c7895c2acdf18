"""What the soak test does: ways to read small data sets, some of them with faults injected.

Every record holds values that follow from its number, and they are checked. Each case knows which
records it must get; cases with an order of their own compare it with that of earlier rounds.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import multiprocessing
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, RandomSampler

import torchrec_io as tio

FILES, RECORDS = 4, 1500  # of each data set of numbers
IMAGES = 48
BATCH = 32
_WIDTH = 256  # values in a record, so that batches of workers go through shared memory
_TOTAL = FILES * RECORDS
_SCHEMA = {
    "id": tio.FixedLenFeature([], "int64"),
    "x": tio.FixedLenFeature([_WIDTH], "float32"),
}
_IMAGE_SCHEMA = {"id": _SCHEMA["id"], "image": tio.ImageFeature(size=(24, 24))}
_DAMAGED_RECORD = 700
_PAUSE = 0.02  # seconds, of slow storage


def _values_of(ids: Any) -> torch.Tensor:
    return torch.as_tensor(ids, dtype=torch.float32).reshape(-1, 1) + torch.arange(_WIDTH) / _WIDTH


class Cases:
    """The data sets, the cases that read them, and what they have counted.

    Args:
        folder: Folder of the data files.
        seed: Seed of the choices of the cases.

    Attributes:
        records: Number of records that were read and checked.
        faults: Number of faults injected, by kind.
        pids: Process ids of all worker processes so far.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.records = 0
        self.faults = Counter[str]()
        self.pids: set[int] = set()
        self._random = random.Random(seed)  # noqa: S311  # chooses cases
        self._orders: dict[tuple[Any, ...], str] = {}
        self._folder = folder
        self._numbers = [str(folder / f"numbers-{i:05}-of-{FILES:05}") for i in range(FILES)]
        for i, path in enumerate(self._numbers):
            _write_numbers(path, range(i * RECORDS, (i + 1) * RECORDS))
        self._gzip = [f"{path}.gz" for path in self._numbers[:2]]
        for path in self._gzip:
            Path(path).write_bytes(gzip.compress(Path(path[:-3]).read_bytes()))
        self._images = str(folder / "images.tfrecord")
        _write_images(self._images)

    def all(self) -> list[Callable[[], None]]:
        """Return all cases, in a new order."""
        cases = [
            self.batches,
            self.classic_line,
            self.map_style,
            self.stream,
            self.compressed,
            self.images,
            self.forked_workers,
            self.spawned_workers,
            self.resume,
            self.subsets,
            self.killed_worker,
            self.paused_worker,
            self.damaged_record,
            self.truncated_file,
            self.overwritten_file,
            self.copied_index,
            self.missing_file,
            self.damaged_images,
            self.slow_pipe,
        ]
        self._random.shuffle(cases)
        return cases

    # ---- without faults ----

    def batches(self) -> None:
        shuffle: Any = self._random.choice([False, True, 1000, tio.Shuffle(block=64, window=500)])
        seed, epoch = self._random.randrange(3), self._random.randrange(3)
        dataset = self._open(batch_size=BATCH, shuffle=shuffle, seed=seed)
        dataset.set_epoch(epoch)
        key = ("batches", str(shuffle), seed, epoch if shuffle else 0)
        self._expect(self._read(dataset), range(_TOTAL), key)

    def classic_line(self) -> None:
        dataset = self._open(shuffle=True, seed=1)
        self._expect(self._read(DataLoader(dataset, BATCH)), range(_TOTAL), ("classic",))

    def map_style(self) -> None:
        dataset = tio.TFRecordMapDataset(self._numbers, _SCHEMA)
        generator = torch.Generator().manual_seed(self._random.randrange(3))
        key = ("map", generator.initial_seed())
        sampler = RandomSampler(dataset, generator=generator)
        self._expect(self._read(DataLoader(dataset, BATCH, sampler=sampler)), range(_TOTAL), key)

    def stream(self) -> None:
        dataset = tio.TFRecordStream(self._numbers, _SCHEMA, batch_size=BATCH, shuffle=500, seed=2)
        self._expect(self._read(dataset), range(_TOTAL), ("stream",))

    def compressed(self) -> None:
        dataset = self._open(self._gzip, batch_size=BATCH, shuffle=True, seed=3)
        self._expect(self._read(dataset), range(2 * RECORDS), ("gzip",))

    def images(self) -> None:
        dataset = tio.TFRecordDataset(self._images, _IMAGE_SCHEMA, batch_size=8, shuffle=True)
        self._expect(self._read(dataset), range(IMAGES), ("images",))

    def forked_workers(self) -> None:
        with self._loader("fork", shuffle=True, seed=4) as loader:
            self._expect(self._read(loader), range(_TOTAL), ("workers",))

    def spawned_workers(self) -> None:
        """The order is that of forked workers."""
        with self._loader("spawn", shuffle=True, seed=4) as loader:
            self._expect(self._read(loader), range(_TOTAL), ("workers",))

    def resume(self) -> None:
        """Leave a loop in the middle, and resume it with a state in another dataset."""
        options: dict[str, Any] = {"batch_size": BATCH, "shuffle": True, "seed": 5}
        dataset = self._open(**options)
        stop = self._random.randrange(1, _TOTAL // BATCH)
        ids = []
        for count, batch in enumerate(dataset, 1):
            ids += self._checked(batch)
            if count == stop:
                break
        resumed = self._open(**options)
        resumed.load_state_dict(dataset.state_dict())
        self._expect(ids + self._read(resumed), range(_TOTAL), ("resume",))

    def subsets(self) -> None:
        dataset = self._open(batch_size=BATCH, shuffle=True, seed=6)
        few = dataset.where(_is_small, features=["id"])
        self._expect(self._read(few), range(900), ("where",))
        some = dataset.select(range(0, _TOTAL, 7))
        self._expect(self._read(some), range(0, _TOTAL, 7), ("select",))

    # ---- with faults ----

    def killed_worker(self) -> None:
        """The loop raises an error; a new loader reads everything."""
        ids: list[int] = []
        with self._loader("fork", shuffle=True, seed=4) as loader:

            def loop() -> None:
                for count, batch in enumerate(loader):
                    ids.extend(self._checked(batch))
                    if count == 2:
                        self._signal(signal.SIGKILL)

            _check_error(loop, RuntimeError, "DataLoader worker")
        self.faults["worker killed"] += 1
        assert len(set(ids)) == len(ids) < _TOTAL, "records were read twice"
        self.forked_workers()

    def paused_worker(self) -> None:
        """A worker that hangs for a while only delays the loop."""
        ids = []
        with self._loader("fork", shuffle=True, seed=4) as loader:
            for count, batch in enumerate(loader):
                ids += self._checked(batch)
                if count == 5:
                    stopped = self._signal(signal.SIGSTOP)
                    threading.Timer(0.3, os.kill, (stopped, signal.SIGCONT)).start()
        self.faults["worker paused"] += 1
        self._expect(ids, range(_TOTAL), ("workers",))

    def damaged_record(self) -> None:
        """A record with a wrong byte is skipped and counted, or raised; then the file is sound."""
        path = self._numbers[1]
        number = RECORDS + _DAMAGED_RECORD
        with _replaced(path) as content:
            at = int(tio.RecordIndex.build(path).offsets[_DAMAGED_RECORD])
            content[at + 40] ^= 0x55
            Path(path).write_bytes(content)
            self.faults["record damaged"] += 1
            dataset = self._open(batch_size=BATCH, shuffle=True, seed=7, on_error="skip")
            wanted = [n for n in range(_TOTAL) if n != number]
            self._expect(self._read(dataset), wanted, ("damaged",))
            assert dataset.skipped == 1, f"{dataset.skipped} records were skipped"
            text = (
                f"{path}: the record's data does not match its checksum (record {_DAMAGED_RECORD},"
            )
            _check_error(
                lambda: self._read(self._open(batch_size=BATCH)), tio.CorruptRecordError, text
            )
        self.batches()

    def truncated_file(self) -> None:
        """A file that lost its end loses these records, and nothing else."""
        path = self._numbers[2]
        with _replaced(path) as content:
            kept = 1000
            end = int(tio.RecordIndex.build(path).offsets[kept])
            Path(path).write_bytes(content[: end + 20])
            self.faults["file truncated"] += 1
            dataset = self._open(batch_size=BATCH, shuffle=True, seed=8, on_error="skip")
            lost = range(2 * RECORDS + kept, 3 * RECORDS)
            wanted = [n for n in range(_TOTAL) if n not in lost]
            self._expect(self._read(dataset), wanted, ("truncated",))
        self.batches()

    def overwritten_file(self) -> None:
        """A file overwritten in place during an epoch ends the loop; all records are of the old."""
        path = self._numbers[0]
        others = range(_TOTAL, _TOTAL + RECORDS)
        ids = []

        def loop() -> None:
            for count, batch in enumerate(self._open(batch_size=BATCH, shuffle=True, seed=9)):
                ids.extend(self._checked(batch))
                if count == 2:
                    _write_numbers(f"{path}.other", others)
                    _overwrite(path, Path(f"{path}.other").read_bytes())

        with _replaced(path):
            _check_error(loop, tio.StaleIndexError, f"{path}: the data file was changed")
            self.faults["file overwritten"] += 1
            assert len(set(ids)) == len(ids), "records were read twice"
            assert not set(ids) & set(others), "records of the new file were mixed in"
            dataset = self._open(batch_size=BATCH)
            self._expect(self._read(dataset), [*others, *range(RECORDS, _TOTAL)], ("overwritten",))
        self.batches()

    def copied_index(self) -> None:
        """An index that the same bytes are copied over during an epoch changes nothing."""
        path = self._numbers[1]
        index = Path(tio.RecordIndex.build(path).save())
        content = index.read_bytes()
        with self._loader("fork", shuffle=True, seed=4, index="auto") as loader:
            ids = []
            for count, batch in enumerate(loader):
                ids += self._checked(batch)
                if count % 50 == 1:
                    _overwrite(str(index), content)
                    self.faults["index overwritten"] += 1
        self._expect(ids, range(_TOTAL), ("workers",))
        index.unlink()

    def missing_file(self) -> None:
        path = self._numbers[3]
        away = f"{path}.away"
        os.rename(path, away)
        self.faults["file missing"] += 1
        _check_error(lambda: self._read(self._open(batch_size=BATCH)), FileNotFoundError, path)
        os.rename(away, path)
        self.batches()

    def damaged_images(self) -> None:
        """Truncated images are skipped, one by one."""
        bad = sorted(self._random.sample(range(IMAGES), 5))
        path = str(self._folder / "damaged-images.tfrecord")
        _write_images(path, bad)
        self.faults["image truncated"] += len(bad)
        dataset = tio.TFRecordDataset(path, _IMAGE_SCHEMA, batch_size=8, on_error="skip")
        self._expect(self._read(dataset), [n for n in range(IMAGES) if n not in bad])
        assert dataset.skipped == len(bad), f"{dataset.skipped} records were skipped"

    def slow_pipe(self) -> None:
        """Bytes come in pieces, with pauses between them."""
        path = self._folder / "pipe"
        os.mkfifo(path)
        content = Path(self._numbers[0]).read_bytes()
        thread = threading.Thread(target=_feed, args=(path, content))
        thread.start()
        self.faults["slow storage"] += 1
        try:
            dataset = tio.TFRecordStream(path, _SCHEMA, batch_size=BATCH)
            self._expect(self._read(dataset), range(RECORDS), ("pipe",))
        finally:
            thread.join()
            path.unlink()

    # ---- reading and checking ----

    def _open(self, paths: list[str] | None = None, **options: Any) -> tio.TFRecordDataset:
        return tio.TFRecordDataset(paths or self._numbers, _SCHEMA, **options)

    @contextlib.contextmanager
    def _loader(self, method: str, **options: Any) -> Iterator[DataLoader[Any]]:
        dataset = self._open(batch_size=BATCH, **options)
        yield DataLoader(dataset, None, num_workers=2, multiprocessing_context=method)

    def _signal(self, number: int) -> int:
        """Send a signal to a worker, and return its process id."""
        pids = sorted(worker.pid or 0 for worker in multiprocessing.active_children())
        self.pids.update(pids)
        pid = self._random.choice(pids)
        os.kill(pid, number)
        return pid

    def _read(self, batches: Iterable[Any]) -> list[int]:
        iterator = iter(batches)
        self.pids |= {worker.pid or 0 for worker in multiprocessing.active_children()}
        return [number for batch in iterator for number in self._checked(batch)]

    def _checked(self, batch: Any) -> list[int]:
        """Return the numbers of the records of a batch whose values have been checked."""
        ids: torch.Tensor = batch["id"]
        if "image" in batch:
            colors = batch["image"][:, 0].flatten(1)
            assert torch.equal(colors, ids.to(torch.uint8)[:, None].expand_as(colors)), "pixels"
        else:
            assert torch.equal(batch["x"], _values_of(ids)), "values of other records"
        self.records += len(ids)
        return [int(number) for number in ids]

    def _expect(
        self, ids: list[int], wanted: Iterable[int], key: tuple[Any, ...] | None = None
    ) -> None:
        """Check that the records are those wanted, in the same order as the last time."""
        difference = Counter(ids)
        difference.subtract(Counter(wanted))
        wrong = {number: count for number, count in difference.items() if count}
        assert not wrong, (
            f"{key}: records lost (-1) or repeated (1): {dict(list(wrong.items())[:5])}"
        )
        if key is not None:
            order = hashlib.sha256(np.array(ids).tobytes()).hexdigest()
            assert self._orders.setdefault(key, order) == order, f"{key}: another order"


def _check_error(action: Callable[[], object], kind: type[Exception], text: str) -> None:
    """Check that an action raises an error with a text."""
    try:
        action()
    except kind as error:
        if text in str(error):
            return
        raise
    raise AssertionError(f"there was no {kind.__name__}")


def _is_small(batch: Any) -> Any:
    return batch["id"] < 900


# ---- files ----


def _write_numbers(path: str, numbers: Iterable[int]) -> None:
    with tio.TFRecordWriter(path) as writer:
        for number in numbers:
            writer.write({"id": number, "x": _values_of(number)[0].numpy()})


def _write_images(path: str, damaged: Iterable[int] = ()) -> None:
    with tio.TFRecordWriter(path) as writer:
        for number in range(IMAGES):
            file = io.BytesIO()
            picture = Image.new("RGB", (32, 32), (number, number, number))
            picture.save(file, "JPEG" if number % 2 else "PNG", quality=100)
            data = file.getvalue()
            size = len(data) // 2 if number in damaged else len(data)
            writer.write({"id": number, "image": data[:size]})


@contextlib.contextmanager
def _replaced(path: str) -> Iterator[bytearray]:
    """Provide the content of a file, and write it back at the end."""
    content = Path(path).read_bytes()
    try:
        yield bytearray(content)
    finally:
        Path(path).write_bytes(content)


def _overwrite(path: str, content: bytes) -> None:
    """Overwrite a file in place, as ``cp`` does."""
    with open(path, "r+b") as file:
        file.write(content)
        file.truncate()


def _feed(path: Path, content: bytes) -> None:
    with open(path, "wb", buffering=0) as pipe:
        step = len(content) // 20 + 1
        for at in range(0, len(content), step):
            pipe.write(content[at : at + step])
            time.sleep(_PAUSE)
