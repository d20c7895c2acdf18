"""Data of ``images.py``: photos in TFRecord files, the boxes that are cut out, and their pixels.

The photos are parts of two photographs that scikit-learn contains. The Python of this library makes
the files, because it also chooses the boxes. Other processes import this module to find the files:
at the top it imports only the standard library and NumPy.
"""

from __future__ import annotations

import importlib.util
import io
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.workloads import data_dir

SIZE = 224
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
SHORT_SIDE = 256
SEED = 3
HEIGHT, WIDTH = 375, 500
_PICTURES = 1024
_RECORD = struct.Struct("<6i")  # of the limit program: box, mirrored, bytes of the file

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Recipe:
    """A way to make training images from stored ones.

    Attributes:
        name: Name.
        text: Description in the tables.
        file_format: Format of the stored images.
    """

    name: str
    text: str
    file_format: str = "JPEG"

    @property
    def records(self) -> str:
        """TFRecord file of images, with the features ``number`` and ``image``."""
        return str(_folder() / f"{_STORED.get(self.name, self.name)}.tfrecord")

    @property
    def boxes(self) -> npt.NDArray[np.int32]:
        """For each image: top, left, height, width and whether it is mirrored; ``[n, 5]``."""
        boxes: npt.NDArray[np.int32] = np.load(_folder() / f"{self._geometry}-boxes.npy")
        return boxes

    @property
    def pixels(self) -> Pixels:
        """What Pillow makes of each image and box; ``[n, 224, 224, 3]``."""
        pixels: Pixels = np.load(_folder() / f"{self._geometry}-pixels.npy", mmap_mode="r")
        return pixels

    @property
    def limit_input(self) -> str:
        """File for the limit program: boxes and images."""
        return str(_folder() / f"{self._geometry}.bin")

    @property
    def _geometry(self) -> str:
        return "crop" if self.name == "train" else self.name


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("crop", "RandomResizedCrop(224) of 500x375 JPEGs"),
        Recipe("train", "the same, as float32 less the mean, divided by the standard deviation"),
        Recipe("evaluate", "short side 256, center crop 224, of 500x375 JPEGs"),
        Recipe("whole", "whole JPEGs of 224x224"),
        Recipe("png", "whole PNGs of 224x224", "PNG"),
    )
}


_STORED = {"train": "crop", "evaluate": "crop"}


def ensure_images() -> None:
    """Create the files if they do not exist."""
    if not all(Path(recipe.limit_input).exists() for recipe in RECIPES.values()):
        _make_all()


def images_of(recipe: Recipe) -> list[bytes]:
    """Return the stored images of a recipe, in order."""
    content = memoryview(Path(recipe.limit_input).read_bytes())
    images = []
    at = 0
    while at < len(content):
        size = _RECORD.unpack_from(content, at)[-1]
        at += _RECORD.size
        images.append(bytes(content[at : at + size]))
        at += size
    return images


def photos(
    sizes: Iterable[tuple[int, int]], file_format: str = "JPEG", *, quality: int = 92
) -> Iterator[bytes]:
    """Yield encoded photos of the given heights and widths, the same in each call."""
    rng = np.random.default_rng(SEED)
    photographs = _photographs()
    for height, width in sizes:
        file = io.BytesIO()
        _picture(rng, photographs, height, width).save(file, file_format, quality=quality)
        yield file.getvalue()


def _folder() -> Path:
    return data_dir() / "photos"


# ---- making the files ----


def _photographs() -> list[Any]:
    from PIL import Image  # noqa: PLC0415  # not in the environments of all peers

    found = importlib.util.find_spec("sklearn")
    if found is None or not found.submodule_search_locations:
        install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "scikit-learn"]
        raise SystemExit(f"scikit-learn has the photographs: {subprocess.list2cmdline(install)}")
    folder = Path(found.submodule_search_locations[0], "datasets", "images")
    return [Image.open(folder / name).convert("RGB") for name in ("china.jpg", "flower.jpg")]


def _picture(rng: np.random.Generator, photographs: list[Any], height: int, width: int) -> Any:
    """Return a part of a photograph, scaled and mirrored at random, with some grain."""
    from PIL import Image  # noqa: PLC0415

    photograph = photographs[rng.integers(len(photographs))]
    scale = rng.uniform(0.6, 1.0)
    columns, rows = (int(side * scale) for side in photograph.size)
    left = int(rng.integers(photograph.width - columns + 1))
    top = int(rng.integers(photograph.height - rows + 1))
    part = photograph.resize(
        (width, height), Image.Resampling.BICUBIC, (left, top, left + columns, top + rows)
    )
    pixels = np.asarray(part)[:, :: rng.choice([-1, 1])].astype(np.float32)
    return Image.fromarray(
        np.clip(pixels + rng.normal(0, 2, pixels.shape), 0, 255).astype(np.uint8)
    )


def _boxes_of(recipe: Recipe) -> npt.NDArray[np.int32]:
    """Return the box of each image, as this library chooses it in the first epoch."""
    import torchrec_io as tio  # noqa: PLC0415  # not in the environments of peers

    if recipe.name != "crop":
        return np.zeros((_PICTURES, 5), np.int32)
    boxes: list[tuple[int, ...]] = []
    choose = tio.RandomResizedCrop()

    def record(height: int, width: int, rng: np.random.Generator) -> tio.Crop:
        crop = choose(height, width, rng)
        boxes.append((crop.top, crop.left, crop.height, crop.width, int(crop.flip)))
        return crop

    image = tio.ImageFeature(size=(SIZE, SIZE), augment=record, decoder="pillow")
    for _ in tio.TFRecordDataset(
        recipe.records, {"image": image}, batch_size=1, seed=SEED, num_threads=1
    ):
        pass
    return np.array(boxes, np.int32)


def _resized(image: Any, recipe: Recipe, box: npt.NDArray[np.int32]) -> Pixels:
    """Return the pixels that Pillow makes."""
    from PIL import Image  # noqa: PLC0415

    bilinear = Image.Resampling.BILINEAR
    if recipe.name == "crop":
        top, left, height, width, is_mirrored = box.tolist()
        part = image.crop((left, top, left + width, top + height)).resize((SIZE, SIZE), bilinear)
        pixels = np.asarray(part)
        return pixels[:, ::-1] if is_mirrored else pixels
    if recipe.name == "evaluate":
        scale = SHORT_SIDE / min(image.size)
        width, height = (int(side * scale) for side in image.size)
        left, top = round((width - SIZE) / 2), round((height - SIZE) / 2)
        image = image.resize((width, height), bilinear).crop((left, top, left + SIZE, top + SIZE))
    return np.asarray(image)


def _make(recipe: Recipe, images: list[bytes]) -> None:
    from PIL import Image  # noqa: PLC0415

    boxes = _boxes_of(recipe)
    assert len(boxes) == len(images)
    np.save(_folder() / f"{recipe.name}-boxes.npy", boxes)
    decoded = (Image.open(io.BytesIO(image)) for image in images)
    pixels = [_resized(image, recipe, box) for image, box in zip(decoded, boxes, strict=True)]
    np.save(_folder() / f"{recipe.name}-pixels.npy", np.stack(pixels))
    with open(recipe.limit_input, "wb") as out:
        for image, box in zip(images, boxes, strict=True):
            out.write(_RECORD.pack(*box.tolist(), len(image)))
            out.write(image)


def _make_all() -> None:
    import torchrec_io as tio  # noqa: PLC0415  # not in the environments of peers

    _folder().mkdir(parents=True, exist_ok=True)
    stored: dict[str, list[bytes]] = {}
    for recipe in RECIPES.values():
        if recipe.name == "train":
            continue
        if recipe.records not in stored:
            size = (HEIGHT, WIDTH) if recipe.name == "crop" else (SIZE, SIZE)
            images = list(photos([size] * _PICTURES, recipe.file_format))
            stored[recipe.records] = images
            with tio.TFRecordWriter(recipe.records, index=True) as writer:
                for number, image in enumerate(images):
                    writer.write({"number": number, "image": image})
        _make(recipe, stored[recipe.records])
