"""Shuffled batches: what `capacity` and `min_after_dequeue` were for, and what to write now.

    python examples/shuffle_batches.py [FOLDER]

`tf.train.shuffle_batch` drew records from a queue of at most `capacity`. Three ways to have
shuffled batches here are measured: how far records come from their stored place.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor

import torchrec_io as tio

RECORDS, BATCH, CAPACITY = 2000, 50, 100
SCHEMA = {"id": tio.FixedLenFeature([], "int64")}


def ids_of(dataset: tio.TFRecordDataset | tio.TFRecordStream, epoch: int = 0) -> Tensor:
    """The numbers of the records in the order they come, int64 ``[RECORDS]``."""
    dataset.set_epoch(epoch)
    batches = [batch["id"] for batch in dataset]
    assert {len(batch) for batch in batches} == {BATCH}
    return torch.cat(batches)


def measure(title: str, dataset: tio.TFRecordDataset | tio.TFRecordStream) -> Tensor:
    """Prints how far records moved in an epoch, and checks what holds for every shuffle."""
    ids = ids_of(dataset)
    moved = torch.arange(RECORDS) - ids
    early, late = -int(moved.min()), int(moved.max())
    mean = moved.abs().float().mean()
    print(f"{title:28}  moved {mean:5.0f} in the mean, at most {early} early, {late} late")
    assert torch.equal(ids.sort().values, torch.arange(RECORDS)), "each record comes once"
    assert torch.equal(ids, ids_of(dataset)), "seed and epoch make the order"
    assert not torch.equal(ids, ids_of(dataset, epoch=1)), "another epoch, another order"
    return moved


def main(folder: Path) -> None:
    """Writes numbered records, and shuffles them in three ways."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "numbers.tfrecord"
    with tio.TFRecordWriter(path, index=True) as writer:
        for number in range(RECORDS):
            writer.write({"id": number})

    # Mixes as widely as the queue, and no record is far from its place: reading stays local.
    window = 4 * CAPACITY
    near = tio.TFRecordDataset(path, SCHEMA, batch_size=BATCH, shuffle=window, seed=1)
    assert measure(f"shuffle={window}", near).abs().max() <= window

    # Any order of all records is as likely as any other. No queue of tf.train did that.
    everywhere = tio.TFRecordDataset(path, SCHEMA, batch_size=BATCH, shuffle=True, seed=1)
    assert measure("shuffle=True", everywhere).abs().max() > window

    # A buffer as theirs, for what can only be read from front to back.
    buffered = tio.TFRecordStream(path, SCHEMA, batch_size=BATCH, shuffle=CAPACITY, seed=1)
    assert measure(f"a stream with shuffle={CAPACITY}", buffered).min() >= -CAPACITY


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1] if sys.argv[1:] else scratch))
