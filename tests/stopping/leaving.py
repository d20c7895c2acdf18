"""Programs for ``test_leaving.py``: processes that exit while something of the package is open.

Each program is a child of one process that has imported everything, so that there can be many. The
child returns from its main module, and its interpreter exits like any other.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

import __main__
import torchrec_io as tio
from tests.support.datasets import SCHEMA, write_files
from tests.support.images import encoded, noise, record_of
from torchrec_io._records.verify import verify_file

COUNT, BATCH = 48, 4


class UserError(Exception):
    """An error of the training loop."""


def file_of(folder: Path, compression: str | None = None) -> list[str]:
    part = folder / (compression or "plain")
    part.mkdir(exist_ok=True)
    return write_files(part, [COUNT], compression)


def batches(folder: Path, **options: Any) -> Any:
    paths = file_of(folder, options.pop("compression", None))
    return tio.TFRecordDataset(paths, SCHEMA, **{"batch_size": BATCH, **options})


def forever(work: Callable[[], Any]) -> Iterator[Any]:
    while True:
        yield work()


# ---- loops, which are left in several ways ----

SOURCES: dict[str, Callable[[Path], Any]] = {
    "batches": batches,
    "samples": lambda folder: tio.make_loader(batches(folder, batch_size=None), device="cpu"),
    "stream": lambda folder: DataLoader(
        tio.TFRecordStream(file_of(folder), SCHEMA, batch_size=BATCH, shuffle=10), batch_size=None
    ),
    "workers": lambda folder: DataLoader(
        batches(folder, compression="gzip", shuffle=True),
        batch_size=None,
        num_workers=2,
        multiprocessing_context="fork",
        persistent_workers=True,
    ),
}


def keep(kept: Any) -> None:
    """Keep an object in the main module, as a script does."""
    __main__.kept = kept


def started(items: Any) -> Any:
    """Return an iterator whose workers have all started."""
    iterator = iter(items)
    next(iterator)
    next(iterator)
    return iterator


def interrupted(items: Any) -> None:
    for _ in started(items):
        signal.raise_signal(signal.SIGINT)


def kept_in_a_global(items: Any) -> None:
    keep((items, started(items)))


def kept_in_sys(items: Any) -> None:
    """Keep an iterator where it outlives the other modules."""
    sys.kept = started(items)  # type: ignore[attr-defined]


def kept_by_an_exception(items: Any) -> None:
    try:
        for _ in started(items):
            raise UserError
    except UserError as error:
        keep(error)


def never_started(items: Any) -> None:
    keep(iter(items))


def at_exit(items: Any) -> None:
    """Read on in a function that runs at exit, before those of the package."""
    atexit.register(next, started(items))


def in_a_thread(items: Any) -> None:
    """Read on in a thread that is no daemon, after the end of the main thread."""
    iterator = started(items)

    def read_on() -> None:
        threading.main_thread().join()
        assert len(list(iterator)) == COUNT // BATCH - 2

    threading.Thread(target=read_on).start()


WAYS: list[Callable[[Any], None]] = [
    interrupted, kept_in_a_global, kept_in_sys, kept_by_an_exception, never_started, at_exit,
    in_a_thread,
]  # fmt: skip

# ---- other open objects ----


def map_style(folder: Path) -> Any:
    dataset = tio.TFRecordMapDataset(file_of(folder), SCHEMA)
    items = iter(tio.make_loader(dataset, batch_size=4, num_workers=2))
    return dataset, dataset[3], items, next(items)


def index(folder: Path) -> Any:
    return tio.RecordIndex.build(file_of(folder)[0])


def held_batch(folder: Path) -> Any:
    batch = next(iter(batches(folder)))
    return batch, batch.samples()


def forked(folder: Path) -> Any:
    """Fork while an iterator and a writer are open; the child exits, too."""
    items = iter(batches(folder))
    next(items)
    writer = tio.TFRecordWriter(folder / "forked")
    writer.write(b"record")
    pid = os.fork()
    if pid == 0:
        return writer, items
    os.waitpid(pid, 0)
    writer.close()
    return writer, items


def unclosed_writer(folder: Path) -> Any:
    writer = tio.TFRecordWriter(folder / "unclosed")
    writer.write(b"record")
    return writer


OBJECTS: list[Callable[[Path], Any]] = [map_style, index, held_batch, forked, unclosed_writer]

# ---- daemon threads, which use the package until the end ----


def images(_: Path) -> Iterable[Any]:
    """Decode JPEGs, by several threads at a time."""
    records = [record_of(encoded(noise(200, 200), "JPEG"))] * 16
    schema = {"image": tio.ImageFeature(size=(32, 32))}
    return forever(lambda: tio.parse_examples(records, schema))


def over_and_over(work: Callable[[str], Any], folder: Path) -> Iterator[Any]:
    [path] = file_of(folder)
    return forever(lambda: work(path))


def collate(paths: list[str]) -> Any:
    samples: Any = tio.TFRecordMapDataset(paths, SCHEMA).__getitems__(list(range(COUNT)))
    return tio.collate(samples)


def endless(folder: Path, **options: Any) -> Any:
    return batches(folder, shuffle=True, epochs=None, **options)


DAEMONS: dict[str, Callable[[Path], Iterable[Any]]] = {
    "batches": endless,
    "one thread": lambda folder: endless(folder, num_threads=1),
    "samples": lambda folder: DataLoader(endless(folder, batch_size=None), batch_size=4),
    "stream": lambda folder: tio.TFRecordStream(file_of(folder), SCHEMA, epochs=None),
    "workers": lambda folder: DataLoader(endless(folder), None, num_workers=1),
    "make_loader": lambda folder: tio.make_loader(endless(folder), device="cpu"),
    "index": lambda folder: over_and_over(tio.RecordIndex.build, folder),
    "verify": lambda folder: over_and_over(verify_file, folder),
    "images": images,
    "collate": lambda folder: forever(functools.partial(collate, file_of(folder))),
    "encode": lambda _: forever(lambda: tio.encode_example({"x": [1.0] * 1000})),
}


def use_in_daemons(name: str, delay: float, folder: Path) -> None:
    """Use the package in daemon threads until the process exits, a moment later."""
    begun = threading.Event()

    def loop(each: Iterable[Any]) -> None:
        for _ in each:
            begun.set()

    # Opened here, because Python refuses new threads for it at exit.
    for each in [DAEMONS[name](folder) for _ in range(2)]:
        threading.Thread(target=loop, args=[each], daemon=True).start()
    assert begun.wait(60)
    time.sleep(delay)


# ---- cases ----


def leave(made: Callable[[Path], Any], way: Callable[[Any], None], folder: Path) -> None:
    way(made(folder))


def cases(times: int) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Yield the name of each case and what it does; daemon threads are used that many times."""
    for source, made in SOURCES.items():
        for way in WAYS if made is batches else [kept_in_a_global]:
            yield f"{way.__name__}, {source}", functools.partial(leave, made, way)
    for thing in OBJECTS:
        yield thing.__name__, functools.partial(leave, thing, keep)
    for name in DAEMONS:
        for number in range(times):
            yield name, functools.partial(use_in_daemons, name, number % 5 / 200)


def is_expected(name: str, status: int, output: str) -> bool:
    """Return whether a case ended well, and printed nothing but its own error or lost data."""
    if name.startswith("interrupted"):
        is_alone = output.count("Traceback") == 1
        return status == signal.SIGINT and is_alone and output.rstrip().endswith("Interrupt")
    if name == "unclosed_writer":
        is_alone = output.count("\n") == 1
        return status == 0 and is_alone and "was never closed; its data was discarded" in output
    return (status, output) == (0, "")


def main() -> None:
    """Run all cases, each in a child, and print those that do not end as they must."""
    options = json.loads(sys.argv[1])
    for name in options["imports"]:
        importlib.import_module(name)
    __main__.tio = tio  # as in a script
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(options["folder"])
    for name, run in cases(options["times"]):
        log = folder / "log"
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            run(folder)
            return
        _, status = os.waitpid(pid, 0)
        output = log.read_text()
        if not is_expected(name, status, output):
            print(name, status, output, flush=True)
