"""A folder of pictures to TFRecord, labels from the names of files, then a split of 60/20/20.

    python examples/apples_and_oranges.py [FOLDER]

The split is of records, not of files: nothing is written a second time, and another split is
another number.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import torchrec_io as tio

SCHEMA = {
    "image/encoded": tio.ImageFeature(size=(32, 32)),
    "image/class/label": tio.FixedLenFeature([], "int64"),
    "image/filename": tio.FixedLenFeature([], "string"),
}


def draw(folder: Path, pictures: int) -> None:
    """Draws ``apple_000.jpg`` (a red one with a stalk), ``orange_001.jpg`` and so on."""
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(1)
    for number in range(pictures):
        width, height = (int(side) for side in random.integers(40, 80, 2))
        image = Image.new("RGB", (width, height), "white")
        pen = ImageDraw.Draw(image)
        kind = ("apple", "orange")[number % 2]
        color = {"apple": (200, 30, 40), "orange": (250, 150, 20)}[kind]
        pen.ellipse((4, 10, width - 5, height - 5), fill=color)
        if kind == "apple":
            pen.line((width // 2, 12, width // 2 + 3, 1), fill="brown", width=2)
        image.save(folder / f"{kind}_{number:03}.jpg")


def main(folder: Path) -> None:
    """Draws, converts, splits, and looks at each part."""
    folder.mkdir(parents=True, exist_ok=True)
    draw(folder / "apples-and-oranges", 50)

    # As: torchrec-io convert FOLDER DESTINATION --label-pattern '([a-z]+)_'
    made = tio.convert.from_images(
        folder / "apples-and-oranges", folder / "fruit.tfrecord", label_pattern=r"([a-z]+)_"
    )
    print(f"{made.records} pictures in {made.file_bytes:,} bytes")
    classes = (folder / "fruit.tfrecord.labels.txt").read_text().split()
    assert (made.records, classes) == (50, ["apple", "orange"])

    fruit = tio.TFRecordDataset(folder / "fruit.tfrecord", SCHEMA, batch_size=10)
    parts = dict(zip(("train", "validation", "test"), fruit.split(0.6, 0.2, 0.2), strict=True))
    seen: Counter[bytes] = Counter()
    for name, part in parts.items():
        labels: Counter[str] = Counter()
        for batch in part:
            assert batch["image/encoded"].shape[1:] == (3, 32, 32)
            kinds = [classes[label] for label in batch["image/class/label"].tolist()]
            names = batch["image/filename"].tolist()
            assert [file.split(b"_")[0].decode() for file in names] == kinds
            labels.update(kinds)
            seen.update(names)
        print(f"{name}: {part.num_records} pictures, {dict(sorted(labels.items()))}")
    assert [part.num_records for part in parts.values()] == [30, 10, 10]
    assert len(seen) == 50, "each picture is in one part"
    assert set(seen.values()) == {1}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1] if sys.argv[1:] else scratch))
