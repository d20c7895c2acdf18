"""How fast are rows of batches joined, selected and padded, compared with PyTorch's functions?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import default_collate

import torchrec_io as tio
from benchmarks.common import arguments, spread, table

_BATCH = 256
_BATCHES = 4
_FEATURES = 40
_SECONDS = 0.1  # of each measurement


def main() -> None:
    """Measure each case and PyTorch's own way in turns, and print how much faster it is."""
    args = arguments(__doc__).parse_args()
    rows = []
    for name, (ours, torchs, has_equal) in _cases().items():
        assert has_equal(ours(), torchs()), name
        times: list[tuple[float, float]] = []
        for _ in range(args.rounds):
            times.append((_time(ours), _time(torchs)))
        middle = statistics.median(ours_s for ours_s, _ in times) * 1e6
        ratios = [torch_s / ours_s for ours_s, torch_s in times]
        rows.append([name, f"{middle:,.0f}", spread(ratios)])
    print(table(["Case", "µs", "Times as fast as PyTorch"], rows))


def _cases() -> dict[str, tuple[Callable[[], Any], Callable[[], Any], Callable[..., bool]]]:
    """Return our way, PyTorch's way, and whether their results are equal, by the case."""
    names = [f"f{number}" for number in range(_FEATURES)]
    schema: dict[str, Any] = {name: tio.FixedLenFeature([], "int64") for name in names}
    schema["vector"] = tio.FixedLenFeature([64], "float32")
    rows = {"rows": tio.VarLenFeature("int64")}
    batches = [tio.parse_examples(_records(batch), schema) for batch in range(_BATCHES)]
    ragged = tio.parse_examples(_records(0), rows)
    samples = [sample for batch in batches for sample in batch.samples()]
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(0))[:_BATCH]
    chosen = [samples[number] for number in order.tolist()]
    dicts = [dict(sample) for sample in chosen]
    numbers = torch.randperm(_BATCH, generator=torch.Generator().manual_seed(0))[: _BATCH // 2]
    columns = dict(batches[0])
    arrays = ragged["rows"].rows()

    def are_equal(found: Any, other: dict[str, Tensor]) -> bool:
        return all(torch.equal(found[name], column) for name, column in other.items())

    return {
        "collate random samples / default_collate": (
            lambda: tio.collate(chosen),
            lambda: default_collate(dicts),
            are_equal,
        ),
        "batch.select / index_select of each column": (
            lambda: batches[0].select(numbers),
            lambda: {name: each.index_select(0, numbers) for name, each in columns.items()},
            are_equal,
        ),
        "pad_collate(batch) / pad_sequence": (
            lambda: tio.pad_collate(ragged),
            lambda: {"rows": pad_sequence(arrays, batch_first=True)},
            are_equal,
        ),
    }


def _records(batch: int) -> list[bytes]:
    """Return the records of a batch."""
    return [
        tio.encode_example(
            {
                **{f"f{number}": batch + i + number for number in range(_FEATURES)},
                "vector": [0.5 * i] * 64,
                "rows": list(range(1 + i % 50)),
            }
        )
        for i in range(_BATCH)
    ]


def _time(call: Callable[[], Any]) -> float:
    """Return the seconds that a call takes."""
    count = 0
    begin = time.perf_counter()
    while time.perf_counter() - begin < _SECONDS:
        call()
        count += 1
    return (time.perf_counter() - begin) / count


if __name__ == "__main__":
    main()
