"""Make a small set of images in TFRecord files with the names and features of ImageNet's files.

    python examples/imagenet_files.py [FOLDER]

The images are random parts of two photographs that scikit-learn contains, each in one of four
colors: 8 classes, which a small model learns within a minute. `train_imagenet.py` trains on them.
"""

from __future__ import annotations

import importlib.util
import io
import sys
from pathlib import Path

import numpy as np
from PIL import Image

import torchrec_io as tio

FOLDER = Path(__file__).parent / "output" / "imagenet"
PHOTOGRAPHS = ("china.jpg", "flower.jpg")
COLORS = (None, "red", "green", "blue")
CLASSES = len(PHOTOGRAPHS) * len(COLORS)
SPLITS = {"train": (1600, 4), "validation": (400, 1)}  # numbers of images and files


def find_photographs() -> list[Image.Image]:
    """Return the photographs that scikit-learn contains."""
    found = importlib.util.find_spec("sklearn")  # not imported: only its files are needed
    if found is None or not found.submodule_search_locations:
        raise SystemExit(
            "scikit-learn must be installed: the images are parts of its photographs. Run\n"
            "    pip install scikit-learn\n"
            "or name a folder of ImageNet's files with --data"
        )
    folder = Path(found.submodule_search_locations[0], "datasets", "images")
    return [Image.open(folder / name).convert("RGB") for name in PHOTOGRAPHS]


def make_image(photograph: Image.Image, color: str | None, rng: np.random.Generator) -> bytes:
    """Return a random part of a photograph, as a JPEG of random size."""
    width, height = (int(side) for side in rng.integers(160, 320, 2))
    scale = rng.uniform(0.5, 0.9) * min(photograph.width / width, photograph.height / height)
    left = rng.uniform(0, photograph.width - width * scale)
    top = rng.uniform(0, photograph.height - height * scale)
    box = (left, top, left + width * scale, top + height * scale)
    part = photograph.resize((width, height), box=box)
    if color is not None:
        part = Image.blend(part, Image.new("RGB", part.size, color), 0.2)
    file = io.BytesIO()
    part.save(file, "JPEG", quality=92)
    return file.getvalue()


def make_split(folder: Path, split: str) -> None:
    """Write the files of a split, all of them or none. Labels start at 1, as in ImageNet."""
    photographs = find_photographs()
    count, num_shards = SPLITS[split]
    rng = np.random.default_rng(list(SPLITS).index(split))
    with tio.ShardedWriter(folder / split, num_shards, index=True) as writer:
        for number in range(count):
            label = number % CLASSES
            which, color = divmod(label, len(COLORS))
            image = make_image(photographs[which], COLORS[color], rng)
            writer.write({"image/encoded": image, "image/class/label": label + 1})
    print(f"{folder}: {split} files of {count} images", flush=True)


def make_missing_files(folder: Path) -> None:
    """Write the splits that do not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        if not any(folder.glob(f"{split}-*")):
            make_split(folder, split)


if __name__ == "__main__":
    make_missing_files(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
