"""Digits as MNIST tutorials store them, 784 int64 values an image, and a model on them.

    python examples/mnist_int64.py [FOLDER]

The images are those of `examples/data`, enlarged to 28x28. They come back in shuffled batches, in
the shape and the dtype that the schema names: there is nothing to reshape and to cast.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

import torchrec_io as tio

DATA = Path(__file__).parent / "data" / "digits"
DIGITS = {
    "image/encoded": tio.ImageFeature(channels=1, size=(28, 28)),
    "label": tio.FixedLenFeature([], "int64"),
}
# Stored are 784 int64 values. Each is checked to be one of uint8.
SCHEMA = {
    "image": tio.FixedLenFeature([1, 28, 28], "uint8"),
    "label": tio.FixedLenFeature([], "int64"),
}


def write(part: str, path: Path) -> None:
    """Writes the digits of a part. They are read once, so without an index."""
    with tio.TFRecordWriter(path, index=True) as writer:
        for digit in tio.TFRecordStream(DATA / f"digits-{part}-*", DIGITS):
            # Integers of any dtype and shape are int64 values one behind the other.
            writer.write({"image": digit["image/encoded"], "label": digit["label"]})
    print(f"{path.name}: {len(writer)} digits in {path.stat().st_size:,} bytes")


def train(path: Path) -> nn.Module:
    """A model of one hidden layer after ten epochs, each in another order."""
    dataset = tio.TFRecordDataset(path, SCHEMA, batch_size=64, shuffle=True, seed=1)
    loader: DataLoader[tio.Batch] = DataLoader(dataset, batch_size=None)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(10):
        dataset.set_epoch(epoch)
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["image"] / 255), batch["label"])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        print(f"epoch {epoch + 1:2}/10  loss of the last batch {loss.item():.4f}")
    return model


def main(folder: Path) -> None:
    """Writes both parts, trains on one, and asks for 90 % on the other."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the model is too small to gain from more
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "test"):
        write(part, folder / f"{part}.tfrecord")
    model = train(folder / "train.tfrecord")
    [test] = tio.TFRecordDataset(folder / "test.tfrecord", SCHEMA, batch_size=360)
    right = model(test["image"] / 255).argmax(1) == test["label"]
    accuracy = right.float().mean().item()
    print(f"test accuracy {accuracy:.4f} on {len(right)} digits")
    if accuracy < 0.9:
        raise SystemExit("the accuracy is below 0.9: something is wrong")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1] if sys.argv[1:] else scratch))
