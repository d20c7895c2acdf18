"""Programs for ``test_leaving.py``: processes that exit while something of the package is open.

Each program is a child of one process that has imported everything, so that there can be many. The
child returns from its main module, and its interpreter exits like any other.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

import __main__
import torchrec_io as tio
from tests.support.datasets import SCHEMA, write_files

COUNT, BATCH = 48, 4


class UserError(Exception):
    """An error of the training loop."""


# ---- what is iterated ----


def in_process(dataset: Any) -> Any:
    return dataset


def workers(method: str, *, persistent: bool) -> Callable[[Any], Any]:
    def load(dataset: Any) -> Any:
        options: Any = {"num_workers": 2, "multiprocessing_context": method}
        return DataLoader(dataset, batch_size=None, persistent_workers=persistent, **options)

    return load


def loader(num_workers: int) -> Callable[[Any], Any]:
    def load(dataset: Any) -> Any:
        return tio.make_loader(dataset, num_workers=num_workers, device="cpu")

    return load


SOURCES: dict[str, Callable[[Any], Any]] = {
    "dataset": in_process,
    "no workers": lambda dataset: DataLoader(dataset, batch_size=None),
    "make_loader": loader(0),
    "make_loader, workers": loader(2),
    "fork": workers("fork", persistent=False),
    "fork, persistent": workers("fork", persistent=True),
    "spawn": workers("spawn", persistent=False),
    "spawn, persistent": workers("spawn", persistent=True),
}


def file_of(folder: Path, name: str = "plain", compression: str | None = None) -> list[str]:
    part = folder / name
    part.mkdir(exist_ok=True)
    return write_files(part, [COUNT], compression)


def batches(folder: Path, **options: Any) -> Any:
    return tio.TFRecordDataset(file_of(folder), SCHEMA, batch_size=BATCH, **options)


def mixture(folder: Path) -> Any:
    parts = [tio.TFRecordDataset(file_of(folder), SCHEMA, shuffle=True) for _ in range(2)]
    return tio.mix(parts, weights=[1, 1], batch_size=BATCH)


DATASETS: dict[str, Callable[[Path], Any]] = {
    "batches": batches,
    "one thread": lambda folder: batches(folder, num_threads=1),
    "samples": lambda folder: tio.TFRecordDataset(file_of(folder), SCHEMA, shuffle=True),
    "stream": lambda folder: tio.TFRecordStream(
        file_of(folder), SCHEMA, batch_size=BATCH, shuffle=10
    ),
    "gzip": lambda folder: tio.TFRecordDataset(
        file_of(folder, "gzip", "gzip"), SCHEMA, batch_size=BATCH, shuffle=True
    ),
    "mixture": mixture,
    "skipping": lambda folder: batches(folder, on_error="skip"),
}


# ---- how the loop is left ----


def keep(kept: Any) -> None:
    """Keep an object in the main module, as a script does."""
    __main__.kept = kept


def started(items: Any) -> Any:
    """Return an iterator whose workers have all started."""
    iterator = iter(items)
    next(iterator)
    next(iterator)
    return iterator


def finished(items: Any) -> None:
    list(items)


def broken(items: Any) -> None:
    for _ in started(items):
        break


def raised(items: Any) -> None:
    for _ in started(items):
        raise UserError


def exited(items: Any) -> None:
    for _ in started(items):
        sys.exit(0)


def interrupted(items: Any) -> None:
    for _ in started(items):
        signal.raise_signal(signal.SIGINT)


def kept_in_a_global(items: Any) -> None:
    keep((items, started(items)))


def kept_in_sys(items: Any) -> None:
    """Keep an iterator where it outlives the other modules."""
    sys.kept = started(items)  # type: ignore[attr-defined]


def kept_in_a_cycle(items: Any) -> None:
    gc.disable()
    cycle: list[Any] = [started(items)]
    cycle.append(cycle)


def kept_by_an_exception(items: Any) -> None:
    try:
        raised(items)
    except UserError as error:
        keep(error)


def never_started(items: Any) -> None:
    keep(iter(items))


def in_a_thread(items: Any) -> None:
    threading.Thread(target=finished, args=[items]).start()


def open_in_a_thread(items: Any) -> None:
    threading.Thread(target=kept_in_a_global, args=[items]).start()


def at_exit(items: Any) -> None:
    """Read on in a function that runs at exit, before those of the package."""
    atexit.register(next, started(items))


WAYS: dict[str, Callable[[Any], None]] = {
    way.__name__: way
    for way in (
        finished, broken, raised, exited, interrupted, kept_in_a_global, kept_in_sys,
        kept_in_a_cycle, kept_by_an_exception, never_started, in_a_thread, open_in_a_thread,
        at_exit,
    )
}  # fmt: skip


# ---- other open objects ----


def map_style(folder: Path) -> Any:
    dataset = tio.TFRecordMapDataset(file_of(folder), SCHEMA)
    return dataset, dataset[3], iter(DataLoader(dataset, batch_size=4, collate_fn=tio.collate))


def map_style_workers(folder: Path) -> Any:
    loader = tio.make_loader(
        tio.TFRecordMapDataset(file_of(folder), SCHEMA), batch_size=4, num_workers=2
    )
    items = iter(loader)
    return loader, items, next(items)


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


OBJECTS: dict[str, Callable[[Path], Any]] = {
    each.__name__: each
    for each in (map_style, map_style_workers, index, held_batch, forked, unclosed_writer)
}


LATE = ["kept_in_a_global", "kept_by_an_exception"]  # collected after the modules are emptied


def in_a_loop(dataset: str, source: str, ways: Iterable[str]) -> list[dict[str, str]]:
    return [{"dataset": dataset, "source": source, "way": way} for way in ways]


def few_cases() -> list[dict[str, str]]:
    """Return the cases that have failed, and one of each other kind."""
    return [
        *in_a_loop("batches", "dataset", [*LATE, "interrupted"]),
        *in_a_loop("stream", "no workers", LATE[:1]),
        *in_a_loop("samples", "make_loader", LATE[:1]),
        *in_a_loop("gzip", "fork, persistent", LATE[:1]),
        *({"made": made} for made in OBJECTS),
    ]


def all_cases() -> list[dict[str, str]]:
    """Return every way with every source, and the late ways with every dataset."""
    found = []
    for source in SOURCES:
        # PyTorch itself prints an error if its workers are ended while they start.
        starting = {"never_started"} if source.startswith("spawn") else set()
        found += in_a_loop("batches", source, [way for way in WAYS if way not in starting])
    for dataset in DATASETS:
        found += in_a_loop(dataset, "dataset", [*LATE, "kept_in_sys", "interrupted"])
    return [*found, *({"made": made} for made in OBJECTS)]


def code_of(case: dict[str, str]) -> int:
    """Return the exit status that a case must have, as ``waitpid`` gives it."""
    return {"raised": 1 << 8, "interrupted": int(signal.SIGINT)}.get(case.get("way", ""), 0)


def is_expected(case: dict[str, str], output: str) -> bool:
    """Return whether a case printed nothing but an error of its own loop, or lost data."""
    if case.get("made") == "unclosed_writer":
        return output.count("\n") == 1 and "was never closed; its data was discarded" in output
    ends = {"raised": "UserError", "interrupted": "KeyboardInterrupt"}
    end = ends.get(case.get("way", ""))
    if end is None:
        return output == ""
    return output.count("Traceback") == 1 and output.rstrip().endswith(end)


def run(case: dict[str, str], folder: Path) -> None:
    """Run a case to its last statement, in a process of its own."""
    if "made" in case:
        keep(OBJECTS[case["made"]](folder))
        return
    WAYS[case["way"]](SOURCES[case["source"]](DATASETS[case["dataset"]](folder)))


def main() -> None:
    """Run all cases, each in a child, and print those that do not end as they must."""
    options = json.loads(sys.argv[1])
    for name in options["imports"]:
        importlib.import_module(name)
    __main__.tio = tio  # as in a script
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(options["folder"])
    file_of(folder)
    file_of(folder, "gzip", "gzip")
    for case in {"few": few_cases, "all": all_cases}[options["cases"]]():
        log = folder / "log"
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            run(case, folder)
            return
        _, status = os.waitpid(pid, 0)
        output = log.read_text()
        if status != code_of(case) or not is_expected(case, output):
            print(json.dumps(case), status, output, flush=True)
