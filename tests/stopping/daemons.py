"""Programs for ``test_daemons.py``: processes that exit while daemon threads use the package.

Each program is a child of one process that has imported everything, so that there can be many. The
child returns from its main module, and its interpreter exits like any other.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import SCHEMA, write_files
from tests.support.images import encoded, noise, record_of
from torchrec_io._records.verify import verify_file

THREADS = 2


def forever(work: Callable[[], Any]) -> Iterator[Any]:
    while True:
        yield work()


def endless(paths: list[str], **options: Any) -> Any:
    return tio.TFRecordDataset(paths, SCHEMA, shuffle=True, epochs=None, **options)


def map_style(paths: list[str]) -> Iterable[Any]:
    dataset = tio.TFRecordMapDataset(paths, SCHEMA)
    return forever(lambda: tio.collate(dataset[3:7]))


def images(paths: list[str]) -> Iterable[Any]:
    """Decode JPEGs, by several threads at a time."""
    del paths
    records = [record_of(encoded(noise(200, 200), "JPEG"))] * 16
    schema = {"image": tio.ImageFeature(size=(32, 32))}
    return forever(lambda: tio.parse_examples(records, schema))


# What a daemon thread does until its end.
PROGRAMS: dict[str, Callable[[list[str]], Iterable[Any]]] = {
    "batches": lambda paths: endless(paths, batch_size=4),
    "one thread": lambda paths: endless(paths, batch_size=4, num_threads=1),
    "samples": endless,
    "stream": lambda paths: tio.TFRecordStream(paths, SCHEMA, batch_size=4, epochs=None),
    "DataLoader": lambda paths: DataLoader(endless(paths), batch_size=4),
    "workers": lambda paths: DataLoader(endless(paths, batch_size=4), None, num_workers=1),
    "make_loader": lambda paths: tio.make_loader(endless(paths, batch_size=4), device="cpu"),
    "map-style": map_style,
    "index": lambda paths: forever(lambda: tio.RecordIndex.build(paths[0])),
    "verify": lambda paths: forever(lambda: verify_file(paths[0])),
    "images": images,
    "encode": lambda _: forever(lambda: tio.encode_example({"x": [1.0] * 1000})),
}


def run(items: Callable[[], Iterable[Any]], delay: float) -> None:
    """Use the package in daemon threads until the process exits, a moment later."""
    started = threading.Event()

    def loop(each: Iterable[Any]) -> None:
        for _ in each:
            started.set()

    # Opened here, because Python refuses new threads for it at exit.
    for each in [items() for _ in range(THREADS)]:
        threading.Thread(target=loop, args=[each], daemon=True).start()
    assert started.wait(60)
    time.sleep(delay)


def main() -> None:
    """Run programs several times, each in a child, and print those that do not end with 0."""
    folder, times, *names = sys.argv[1:]
    torch.set_num_threads(1)
    paths = write_files(Path(folder), [50])
    for name in names:
        for number in range(int(times)):
            pid = os.fork()
            if pid == 0:
                run(functools.partial(PROGRAMS[name], paths), number % 5 / 200)
                return
            _, status = os.waitpid(pid, 0)
            if status:
                print(name, status, flush=True)
