"""Make shuffled batches, and replace `capacity` and `min_after_dequeue`.

    python examples/shuffle_batches.py [FOLDER]

`tf.train.shuffle_batch` chose records at random from a queue of at most `capacity` records. This
script makes shuffled batches in three ways, and measures how far records move from their stored
position.
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
    """Return the numbers of the records in the order they are yielded, int64 ``[RECORDS]``."""
    dataset.set_epoch(epoch)
    batches = [batch["id"] for batch in dataset]
    assert {len(batch) for batch in batches} == {BATCH}
    return torch.cat(batches)


def measure(title: str, dataset: tio.TFRecordDataset | tio.TFRecordStream) -> Tensor:
    """Print how far records move in an epoch, and check what every shuffle guarantees."""
    ids = ids_of(dataset)
    moved = torch.arange(RECORDS) - ids
    early, late = -int(moved.min()), int(moved.max())
    mean = moved.abs().float().mean()
    print(f"{title:28}  moved {mean:5.0f} on average, at most {early} early, {late} late")
    assert torch.equal(ids.sort().values, torch.arange(RECORDS)), "each record must be yielded once"
    assert torch.equal(ids, ids_of(dataset)), "seed and epoch must determine the order"
    assert not torch.equal(ids, ids_of(dataset, epoch=1)), "another epoch must have another order"
    return moved


def main(folder: Path) -> None:
    """Write numbered records, and shuffle them in three ways."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "numbers.tfrecord"
    with tio.TFRecordWriter(path, index=True) as writer:
        for number in range(RECORDS):
            writer.write({"id": number})

    # This mixes as widely as the queue. Records stay near their position, so reading stays local.
    window = 4 * CAPACITY
    near = tio.TFRecordDataset(path, SCHEMA, batch_size=BATCH, shuffle=window, seed=1)
    assert measure(f"shuffle={window}", near).abs().max() <= window

    # Every order of all records is equally likely. The queues of tf.train could not do this.
    everywhere = tio.TFRecordDataset(path, SCHEMA, batch_size=BATCH, shuffle=True, seed=1)
    assert measure("shuffle=True", everywhere).abs().max() > window

    # A buffer like TensorFlow's, for data that can only be read from front to back.
    buffered = tio.TFRecordStream(path, SCHEMA, batch_size=BATCH, shuffle=CAPACITY, seed=1)
    assert measure(f"a stream with shuffle={CAPACITY}", buffered).min() >= -CAPACITY


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1] if sys.argv[1:] else scratch))
