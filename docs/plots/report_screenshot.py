"""Draw report_screenshot.png, the first screen of a report about images with boxes of objects.

The images are scenes of the handwritten digits in examples/data. Chromium takes the picture.

python docs/plots/report_screenshot.py [picture]
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import torchrec_io as tio

PICTURE = Path(__file__).with_suffix(".png")
DIGITS = Path(__file__).parents[2] / "examples" / "data" / "digits"
SETS = {"train": (480, 4), "val": (96, 2)}  # numbers of records and of shards
SIZES = ((192, 144), (160, 160), (144, 192))
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SCREEN = 1280, 1012  # CSS pixels
SCALE, WIDTH = 2, 1200  # device pixels for each of these, and pixels of the picture
EDGES = ("xmin", "ymin", "xmax", "ymax")


def read_digits() -> list[tuple[Image.Image, int]]:
    """Return the digits of the test set, as gray images, and their numbers."""
    paths = str(DIGITS / "digits-test-*")
    schema = {
        "image/encoded": tio.FixedLenFeature([], "string"),
        "label": tio.FixedLenFeature([], "int64"),
    }
    return [
        (Image.open(io.BytesIO(sample["image/encoded"])), int(sample["label"]))
        for sample in tio.TFRecordDataset(paths, schema)
    ]


def background(random: np.random.Generator, width: int, height: int) -> Image.Image:
    """Return a gradient of two colors."""
    hue = int(random.integers(256))
    colors = [
        Image.new("HSV", (1, 1), ((hue + turn) % 256, 170, value))
        for turn, value in ((0, 150), (30, 60))
    ]
    first, last = (np.asarray(color.convert("RGB"), np.float64)[0, 0] for color in colors)
    part = np.add.outer(np.linspace(0, 0.6, height), np.linspace(0, 0.4, width))[..., None]
    return Image.fromarray((first * (1 - part) + last * part).astype(np.uint8))


def make_scene(
    random: np.random.Generator, digits: list[tuple[Image.Image, int]]
) -> dict[str, Any]:
    """Return the features of an image with some digits, each in a box."""
    width, height = SIZES[random.integers(len(SIZES))]
    scene = background(random, width, height)
    free = [(x, y) for x in range(0, width - 40, 48) for y in range(0, height - 40, 48)]
    random.shuffle(free)
    boxes, numbers = [], []
    for x, y in free[: random.integers(1, 6)]:
        digit, number = digits[random.integers(len(digits))]
        side = int(random.integers(34, 47))
        mask = digit.resize((side, side), Image.Resampling.BICUBIC)
        left, top = x + int(random.integers(49 - side)), y + int(random.integers(49 - side))
        scene.paste((255, 255, 255), (left, top), mask)
        inner = mask.point(lambda value: 255 * (value > 60)).getbbox()
        assert inner is not None
        corners = np.add(inner, (left, top, left, top)).clip(0, (width, height, width, height))
        boxes.append(corners / (width, height, width, height))
        numbers.append(number)
    file = io.BytesIO()
    scene.save(file, "JPEG", quality=90)
    return {
        "image/encoded": file.getvalue(),
        "image/height": height,
        "image/width": width,
        "image/object/bbox": {
            edge: [*map(float, values)]
            for edge, values in zip(EDGES, zip(*boxes, strict=True), strict=True)
        },
        "image/object/class": {"label": numbers, "text": [NAMES[each] for each in numbers]},
    }


def write_data(folder: Path) -> None:
    """Write the shards of each set."""
    random, digits = np.random.default_rng(5), read_digits()
    for name, (records, shards) in SETS.items():
        with tio.ShardedWriter(folder / name, num_shards=shards) as writer:
            for number in range(records):
                features = make_scene(random, digits)
                writer.write({"image/filename": f"{name}/scene-{number:04}.jpg", **features})


def take_screenshot(page: Path, picture: Path) -> None:
    """Write the first screen of a page to a PNG file of few colors."""
    program = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    )
    full = picture.with_name("full.png")
    subprocess.run(
        [
            program, "--headless", "--no-sandbox", "--hide-scrollbars", f"--screenshot={full}",
            f"--window-size={SCREEN[0]},{SCREEN[1]}", f"--force-device-scale-factor={SCALE}",
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    with Image.open(full) as image:
        small = image.convert("RGB").resize(
            (WIDTH, SCREEN[1] * WIDTH // SCREEN[0]), Image.Resampling.LANCZOS
        )
    full.unlink()
    small.quantize(256, dither=Image.Dither.NONE).save(picture, optimize=True)


def main(picture: Path) -> None:
    """Make the data, its report and the picture."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "scenes")
        data.mkdir()
        write_data(data)
        page = Path(folder, "report.html")
        tio.report(data).save(page)
        take_screenshot(page, picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
