"""Ways to send batches from two DataLoader workers: slots, inline, one storage, dict of tensors.

The results set ``_INLINE_BYTES`` in ``torchrec_io/_tensors/transport.py``, and in ``columns.py``
for batches without a slot. The batches are read in advance. Workers only copy them into new memory,
like the memory of a parsed batch, and send them. The consumer copies each batch once, like a copy
to a device.
"""

from __future__ import annotations

import itertools
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, IterableDataset

import torchrec_io as tio
from benchmarks.common import arguments, ensure_data, spread, table
from benchmarks.peers.ours import schema_of
from benchmarks.workloads import WORKLOADS
from torchrec_io._tensors import columns as columns_module
from torchrec_io._tensors import transport
from torchrec_io._tensors.arena import allocate_arena
from torchrec_io._tensors.columns import Columns

_ARENA_BYTES = tuple(1 << shift for shift in range(12, 25))
_WARM_UP = 8  # batches
_NEVER, _ALWAYS = -1, 1 << 62
# Largest sizes sent inline: instead of in slots, and instead of in a storage.
_WAYS = {
    "slots": (_NEVER, _NEVER),
    "inline": (_ALWAYS, _ALWAYS),
    "one storage": (_ALWAYS, _NEVER),
    "dict of tensors": (_ALWAYS, _ALWAYS),
}


class _Cost(NamedTuple):
    rate: float  # batches per second
    cpu: float  # CPU seconds of the consumer for each batch


class _Source(IterableDataset[Any]):
    """Endless dataset that yields copies of one batch in new memory."""

    def __init__(self, batch: tio.Batch, as_dict: bool) -> None:
        self._batch = batch
        self._as_dict = as_dict

    def __iter__(self) -> Iterator[Any]:
        while True:
            if self._as_dict:
                yield {name: column.clone() for name, column in self._batch.items()}
                continue
            arena = allocate_arena(self._batch.arena.numel())
            columns = self._batch.columns
            yield tio.Batch(Columns(arena.copy_(self._batch.arena), columns.layout, columns.form))


def _read_batch(arena_bytes: int) -> tio.Batch:
    """Read a batch of tabular records of about the given size."""
    workload = WORKLOADS["tabular"]
    record_bytes = 27 * 8 + 13 * 4  # int64 and float32 columns
    dataset = tio.TFRecordDataset(
        workload.files, schema_of(workload), batch_size=arena_bytes // record_bytes, num_threads=1
    )
    batch: tio.Batch = next(iter(dataset))
    return batch


def _measure(batch: tio.Batch, way: str, seconds: float) -> _Cost:
    """Send and receive batches for some time."""
    transport._INLINE_BYTES, columns_module._INLINE_BYTES = _WAYS[way]  # noqa: SLF001
    loader = DataLoader(
        _Source(batch, way == "dict of tensors"),
        batch_size=None,
        num_workers=2,
        multiprocessing_context=multiprocessing.get_context("fork"),  # workers see the line above
    )
    taken = torch.empty_like(batch.arena)
    received = iter(loader)
    for arrived in itertools.islice(received, _WARM_UP):
        _take(arrived, taken)
        _check(arrived, batch)
    count = 0
    start, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - start < seconds:
        _take(next(received), taken)
        count += 1
    return _Cost(
        rate=count / (time.perf_counter() - start), cpu=(time.process_time() - cpu) / count
    )


def _take(arrived: Any, into: torch.Tensor) -> None:
    """Copy all data, in a single copy if it is contiguous."""
    if isinstance(arrived, tio.Batch):
        into.copy_(arrived.arena)
        return
    at = 0
    for column in arrived.values():
        size = column.numel() * column.element_size()
        into[at : at + size].copy_(column.view(torch.uint8))
        at += size


def _check(arrived: Any, sent: tio.Batch) -> None:
    assert all(torch.equal(arrived[name], sent[name]) for name in sent)


def _size_name(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def _row(size: int, rounds: int, seconds: float) -> list[object]:
    """Return the row of one arena size. The ways are measured in turns."""
    batch = _read_batch(size)
    costs: dict[str, list[_Cost]] = {way: [] for way in _WAYS}
    for _ in range(rounds):
        for way in _WAYS:
            costs[way].append(_measure(batch, way, seconds))
    rates = [[cost.rate for cost in costs[way]] for way in _WAYS]
    slots, inline, storage, as_dict = rates
    over_inline = [a / b for a, b in zip(slots, inline, strict=True)]
    over_storage = [a / b for a, b in zip(slots, storage, strict=True)]
    over_dict = [a / b for a, b in zip(slots, as_dict, strict=True)]
    cpu = (statistics.median(cost.cpu for cost in costs[way]) for way in _WAYS)
    return [
        _size_name(size),
        " / ".join(f"{statistics.median(of):,.0f}" for of in rates),
        " / ".join(f"{seconds * 1e6:,.0f}" for seconds in cpu),
        spread(over_inline),
        spread(over_storage),
        f"{statistics.median(over_dict):.1f}",
    ]


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="duration of each measurement")
    args = parser.parse_args()
    torch.set_num_threads(1)
    used = transport._INLINE_BYTES  # noqa: SLF001
    ensure_data(["tabular"], args.scale)
    print(f"Current threshold of inline batches: {_size_name(used)}. Ways: {' / '.join(_WAYS)}.\n")
    headers = [
        "Arena size",
        "Batches/s",
        "Consumer CPU time, µs per batch",
        "Slots relative to inline",
        "Slots relative to one storage",
        "Slots relative to dict",
    ]
    print(table(headers, [_row(size, args.rounds, args.seconds) for size in _ARENA_BYTES]))


if __name__ == "__main__":
    main()
