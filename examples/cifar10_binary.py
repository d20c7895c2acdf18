"""Read records of a fixed length: CIFAR-10's binary files and MNIST's idx files with a header.

    python examples/cifar10_binary.py [FOLDER]

The script writes random files in these formats. All records have the same length, and the fields of
a record follow each other in the order of the schema.
"""

from __future__ import annotations

import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import torchrec_io as tio

IMAGES = 200
# A byte for the label, then all red bytes, all green ones and all blue ones: 3,073 bytes.
CIFAR10 = {"label": tio.RawFeature("uint8", []), "image": tio.RawFeature("uint8", [3, 32, 32])}
DIGIT = {"image": tio.RawFeature("uint8", [28, 28])}
LABEL = {"label": tio.RawFeature("uint8", [])}


def read_cifar10(path: Path, labels: npt.NDArray[Any], images: npt.NDArray[Any]) -> None:
    """Read shuffled batches of labels ``[B]`` and images ``[B, 3, 32, 32]``."""
    dataset = tio.FixedLengthRecordDataset(
        path, 3073, CIFAR10, batch_size=64, shuffle=True, seed=1, with_key=True
    )
    for keys, batch in dataset:
        print(f"CIFAR-10: {list(batch['image'].shape)}, labels {batch['label'][:8].tolist()}...")
        rows = [int(key.rsplit(":", 1)[1]) for key in keys]  # a key is "path:record"
        assert np.array_equal(batch["label"], labels[rows])
        assert np.array_equal(batch["image"], images[rows])


def read_mnist(folder: Path, labels: npt.NDArray[Any], digits: npt.NDArray[Any]) -> None:
    """Read two files with equally many records, which have the same order with the same seed."""
    image_batches = tio.FixedLengthRecordDataset(
        folder / "images-idx3-ubyte", 784, DIGIT, header_bytes=16, batch_size=64, shuffle=True
    )
    label_batches = tio.FixedLengthRecordDataset(
        folder / "labels-idx1-ubyte", 1, LABEL, header_bytes=8, batch_size=64, shuffle=True
    )
    left = {(digit.tobytes(), int(label)) for digit, label in zip(digits, labels, strict=True)}
    for images, batch in zip(image_batches, label_batches, strict=True):
        print(f"MNIST: {list(images['image'].shape)}, labels {batch['label'][:8].tolist()}...")
        for digit, label in zip(images["image"], batch["label"], strict=True):
            left.remove((digit.numpy().tobytes(), int(label)))
    assert not left, "each image must be yielded once, with its label"


def main(folder: Path) -> None:
    """Write files in both formats and read them."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    labels = random.integers(0, 10, IMAGES, np.uint8)

    images = random.integers(0, 256, (IMAGES, 3, 32, 32), np.uint8)
    rows = np.concatenate([labels[:, None], images.reshape(IMAGES, -1)], axis=1)
    (folder / "data_batch_1.bin").write_bytes(rows.tobytes())
    read_cifar10(folder / "data_batch_1.bin", labels, images)

    digits = random.integers(0, 256, (IMAGES, 28, 28), np.uint8)
    # A number for dtype and dimensions, then the shape, all big-endian.
    header = struct.pack(">4i", 0x803, IMAGES, 28, 28)
    (folder / "images-idx3-ubyte").write_bytes(header + digits.tobytes())
    header = struct.pack(">2i", 0x801, IMAGES)
    (folder / "labels-idx1-ubyte").write_bytes(header + labels.tobytes())
    read_mnist(folder, labels, digits)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1] if sys.argv[1:] else scratch))
