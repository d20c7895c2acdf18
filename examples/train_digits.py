"""Train a small CNN on handwritten digits that TensorFlow wrote as TFRecord files.

The files are in ``examples/data/digits``; ``examples/data/make_digits.py`` wrote them. This script
indexes them, trains with two DataLoader workers, and saves a picture of predictions on test digits.

    python examples/train_digits.py [--output DIR] [--epochs N]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from PIL import Image, ImageDraw
from torch import Tensor, nn
from torch.utils.data import DataLoader

import torchrec_io as tio

DATA = Path(__file__).parent / "data" / "digits"

SCHEMA = tio.Schema(
    {
        "image/encoded": tio.ImageFeature(channels=1, dtype="float32", size=(8, 8)),
        "label": tio.FixedLenFeature([], "int64"),
    }
)


def make_datasets() -> tuple[tio.TFRecordDataset, tio.TFRecordDataset]:
    """Return the datasets for training and testing. The first call builds the indexes."""
    train = tio.TFRecordDataset(
        DATA / "digits-train-*", SCHEMA, batch_size=64, shuffle=True, seed=1, drop_last=True
    )
    test = tio.TFRecordDataset(DATA / "digits-test-*", SCHEMA, batch_size=256)
    return train, test


def make_model() -> nn.Module:
    """Return a CNN with 94,000 weights for images ``[B, 1, 8, 8]``."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(64 * 4 * 4, 72),
        nn.ReLU(),
        nn.Linear(72, 10),
    )


def train_epoch(
    model: nn.Module, loader: DataLoader[tio.Batch], optimizer: torch.optim.Optimizer
) -> tuple[float, int]:
    """Train for one epoch, and return the mean loss and the number of records."""
    model.train()
    losses: list[float] = []
    records = 0
    for batch in loader:
        loss = nn.functional.cross_entropy(model(batch["image/encoded"]), batch["label"])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
        records += len(batch["label"])
    return sum(losses) / len(losses), records


@torch.no_grad()
def predict(model: nn.Module, loader: DataLoader[tio.Batch]) -> tuple[Tensor, Tensor, Tensor]:
    """Return images ``[N, 1, 8, 8]``, labels ``[N]`` and predictions ``[N]`` of a dataset."""
    model.eval()
    images, labels, predictions = [], [], []
    for batch in loader:
        images.append(batch["image/encoded"])
        labels.append(batch["label"])
        predictions.append(model(images[-1]).argmax(1))
    return torch.cat(images), torch.cat(labels), torch.cat(predictions)


def draw(images: Tensor, labels: Tensor, predictions: Tensor, path: Path) -> None:
    """Save a picture of 60 digits with their predictions, mistakes first and in red."""
    size, columns, rows = 64, 10, 6
    first = torch.argsort((labels == predictions).int(), stable=True)[: columns * rows]
    picture = Image.new("RGB", (columns * size, rows * (size + 16)), "white")
    pen = ImageDraw.Draw(picture)
    for position, i in enumerate(first.tolist()):
        x, y = position % columns * size, position // columns * (size + 16)
        pixels = (images[i, 0] * 255).byte().numpy()
        digit = Image.fromarray(255 - pixels).resize((size - 4, size - 4), Image.Resampling.NEAREST)
        picture.paste(digit, (x + 2, y + 2))
        good = bool(labels[i] == predictions[i])
        text = f"{int(predictions[i])}" if good else f"{int(predictions[i])}, is {int(labels[i])}"
        pen.text((x + 4, y + size), text, fill="black" if good else "red")
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path)


def main() -> None:
    """Train, print the accuracy, and save the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    parser.add_argument("--epochs", type=int, default=15)
    args = parser.parse_args()
    torch.manual_seed(0)
    # Each DataLoader worker uses a core, and the model is too small to benefit from more threads.
    torch.set_num_threads(1)

    train, test = make_datasets()
    files = len(train.paths) + len(test.paths)
    print(f"{files} files indexed: {train.num_records} training, {test.num_records} test records")
    # The dataset makes the batches, so the loader must not. The workers stay alive between epochs.
    train_loader: DataLoader[tio.Batch] = DataLoader(
        train, batch_size=None, num_workers=2, persistent_workers=True
    )
    test_loader: DataLoader[tio.Batch] = DataLoader(test, batch_size=None)

    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    for epoch in range(args.epochs):
        train.set_epoch(epoch)  # each epoch has another order
        start = time.perf_counter()
        loss, records = train_epoch(model, train_loader, optimizer)
        rate = records / (time.perf_counter() - start)
        schedule.step()
        progress = f"epoch {epoch + 1:2}/{args.epochs}  loss {loss:.4f}  {rate:,.0f} records/s"
        print(progress, flush=True)

    images, labels, predictions = predict(model, test_loader)
    accuracy = (labels == predictions).float().mean().item()
    path = args.output / "digits.png"
    draw(images, labels, predictions, path)
    print(f"test accuracy {accuracy:.4f} on {len(labels)} digits; picture: {path}")
    if accuracy < 0.97:
        raise SystemExit("the accuracy is below 0.97: something is wrong")


if __name__ == "__main__":
    main()
