"""grain's side of ``packing.py``: the same documents, packed with a buffer, from memory.

Prints for each packer the share of the rows that is tokens, and tokens per second.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import grain
import numpy as np
from grain import experimental


def main() -> None:
    """Pack the documents. Arguments: median length, number of documents, length of a row."""
    median, count, length = map(int, sys.argv[1:])
    random = np.random.default_rng(0)
    lengths = np.rint(median * np.exp(1.1 * random.standard_normal(count))).astype(int)
    # grain does not split documents.
    pieces = [
        {"tokens": np.zeros(min(length, whole - begin), np.int64)}
        for whole in np.maximum(1, lengths).tolist()
        for begin in range(0, whole, length)
    ]
    source = grain.MapDataset.source(pieces).shuffle(seed=0)
    found = {}
    for name in ("FirstFitPackIterDataset", "BestFitPackIterDataset"):
        rows = getattr(experimental, name)(
            source.to_iter_dataset(),
            length_struct={"tokens": length},
            num_packing_bins=256,
        )
        found[name] = _measure(rows, length)
    print(json.dumps(found))


def _measure(rows: Any, length: int) -> dict[str, float]:
    begin = time.perf_counter()
    tokens = count = 0
    for row in rows.batch(32, drop_remainder=False):
        segments = row["tokens_segment_ids"]
        tokens += int((segments > 0).sum())
        count += len(segments)
    seconds = time.perf_counter() - begin
    return {"fill": tokens / (count * length), "tokens_per_second": tokens / seconds}


if __name__ == "__main__":
    main()
