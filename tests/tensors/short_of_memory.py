"""Program of ``test_memory.py``, which runs in a process with little memory."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.threads import wait_until_threads_end

BATCH = 50
LONG = 430  # record; far behind the first runs of several batches
STEPS = 3_000_000
ROOM = 500 << 20  # less than the batch with that record needs
SCHEMA = {
    "id": tio.FixedLenFeature([], "int64"),
    "steps": tio.FixedLenSequenceFeature([], "int64", allow_missing=True),
}


def main() -> None:
    """Goes through a file with a long record; says what came, and what was raised."""
    path, workers, method, threads = json.loads(sys.argv[1])
    dataset = tio.TFRecordDataset(path, SCHEMA, batch_size=BATCH, num_threads=threads)
    options: Any = {"num_workers": workers, "multiprocessing_context": method} if workers else {}
    loader: Any = DataLoader(dataset, batch_size=None, **options)
    for _ in zip(range(2), dataset, strict=False):  # all that is imported late is there
        pass
    wait_until_threads_end(others=())
    used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    came: list[list[int]] = []
    said, kind = "", ""
    try:
        for batch in loader:
            came.append(batch["id"].tolist())
    except MemoryError as error:
        kind, said = type(error).__name__, str(error)
    print(json.dumps({"came": came, "kind": kind, "said": said}))
