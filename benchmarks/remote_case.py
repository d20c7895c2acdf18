"""One measurement of ``remote.py`` in a fresh process: ``remote_case.py JSON``; prints JSON.

Memory is that of the process and its children above the process after ``import torch``, as the
kernel shares it out between processes (PSS).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch  # noqa: F401  # memory is counted from here

RECORD_BYTES = 12_000

_SECONDS_BETWEEN_LOOKS = 0.05
_RANGE_BYTES = 8 << 20
_REQUESTS = 64


class PeakMemory:
    """Peak of the memory of this process and its children, above that at the start."""

    def __init__(self) -> None:
        self._start = _bytes_of_all()
        self._peak = self._start
        threading.Thread(target=self._look, daemon=True).start()

    @property
    def bytes(self) -> int:
        """The peak until now."""
        return self._peak - self._start

    def _look(self) -> None:
        while True:
            self._peak = max(self._peak, _bytes_of_all())
            time.sleep(_SECONDS_BETWEEN_LOOKS)


def _bytes_of_all() -> int:
    own = Path("/proc/self")
    children = [
        pid
        for task in own.glob("task/*/children")
        for pid in task.read_text().split()
        if Path("/proc", pid).exists()
    ]
    return sum(map(_shared_out_bytes, ["self", *children]))


def _shared_out_bytes(pid: str) -> int:
    try:
        lines = Path("/proc", pid, "smaps_rollup").read_text().splitlines()
    except OSError:  # it has just ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def main() -> None:
    """Measure what the argument says."""
    case: dict[str, Any] = json.loads(sys.argv[1])
    # Looking at memory takes a quarter of the time, so it has a run of its own.
    memory = PeakMemory() if case.pop("watches_memory", False) else None
    name = case.pop("case")
    found = _download(**case) if name == "download" else _read(**case)
    print(json.dumps(found | {"memory": 0 if memory is None else memory.bytes}))


def digest_of(records: Iterable[bytes]) -> int:
    """Return a digest of records that does not depend on their order."""
    hashes = (hashlib.blake2b(record, digest_size=8).digest() for record in records)
    return sum(int.from_bytes(each, "little") for each in hashes) % (1 << 64)


def _read(
    paths: list[str],
    options: dict[str, Any],
    *,
    is_check: bool = False,
    epochs: int = 1,
    records: int | None = None,
) -> dict[str, Any]:
    """Read epochs with this library, and return what the last one took.

    Args:
        paths: Files or URLs.
        options: Options of the dataset.
        is_check: Whether a digest of the records is returned.
        epochs: Number of epochs.
        records: Number of records of an epoch after which it ends; None for all.
    """
    import torchrec_io as tio  # noqa: PLC0415  # not for other cases

    most = records
    shuffle = options.pop("shuffle", False)
    if isinstance(shuffle, dict):
        shuffle = tio.Shuffle(**shuffle)
    if "cache" in options:
        options["cache"] = tio.BlockCache(options["cache"], max_bytes=1 << 40)
    begin = time.perf_counter()
    dataset = tio.TFRecordDataset(
        paths,
        {"data": tio.RawFeature("uint8", (RECORD_BYTES,))},
        batch_size=64,
        shuffle=shuffle,
        **options,
    )
    total = records = 0
    first = 0.0
    for epoch in range(epochs):
        start = time.perf_counter()
        records = 0
        for batch in dataset:
            first = first or time.perf_counter() - begin
            records += len(batch["data"])
            if is_check:
                total += digest_of(row.numpy().tobytes() for row in batch["data"])
            if most is not None and records >= most:
                break
        seconds = time.perf_counter() - start
        dataset.set_epoch(epoch + 1)
    return {
        "seconds": seconds,
        "first": first,
        "records": records,
        "digest": total % (1 << 64),
    }


def _download(
    bucket: str,
    sizes: dict[str, int],
    config: Any,
    *,
    range_bytes: int = _RANGE_BYTES,
    requests: int | None = None,
) -> dict[str, Any]:
    """Download objects with obstore, in parallel ranges, and do nothing with them.

    Args:
        bucket: Name of the bucket.
        sizes: Size of each object in bytes, by its key.
        config: Options of the store.
        range_bytes: Size of a range in bytes.
        requests: Number of ranges, chosen at random; None for all, in their order.
    """
    import obstore  # noqa: PLC0415  # not for other cases
    from obstore.store import S3Store  # noqa: PLC0415

    store = S3Store(bucket, config=config, client_options={"allow_http": True})

    ranges = [
        (key, begin, min(size, begin + range_bytes))
        for key, size in sizes.items()
        for begin in range(0, size, range_bytes)
    ]
    if requests is not None:
        chosen = np.random.default_rng(0).permutation(len(ranges))[:requests]
        ranges = [ranges[number] for number in chosen.tolist()]

    async def get(key: str, begin: int, end: int, free: asyncio.Semaphore) -> int:
        async with free:
            return len(await obstore.get_range_async(store, key, start=begin, end=end))

    async def get_all() -> int:
        free = asyncio.Semaphore(_REQUESTS)
        return sum(await asyncio.gather(*(get(*each, free) for each in ranges)))

    begin = time.perf_counter()
    assert asyncio.run(get_all()) == sum(end - start for _, start, end in ranges)
    seconds = time.perf_counter() - begin
    return {"seconds": seconds} | ({} if requests is None else {"records": requests})


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    # Threads of obstore's runtime may abort an interpreter that ends.
    os._exit(0)
