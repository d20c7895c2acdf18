"""Store images of different sizes as raw bytes and as JPEG, read them in batches, and plot them.

    python examples/images_of_many_sizes.py [FOLDER]

Raw bytes do not contain the shape of the image, so it is stored as well. A JPEG contains it.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  # PyTorch's own name for it

import torchrec_io as tio

SIZES = [(48, 64), (64, 48), (96, 32), (40, 40), (30, 90), (72, 80)]  # height, width
RAW = {
    # A list of Tensors, each with its own shape.
    "image_raw": tio.RawFeature("uint8", shape_key="shape"),
    "height": tio.FixedLenFeature([], "int64"),
    "width": tio.FixedLenFeature([], "int64"),
}
JPEG = {"image/encoded": tio.ImageFeature(size=(64, 64))}  # [B, 3, 64, 64]
# Like tf.image.resize_image_with_pad: the whole image is visible, with black around it.
PADDED = {"image/encoded": tio.ImageFeature(size=(64, 64), resize="contain")}


def draw(height: int, width: int) -> Image.Image:
    """Draw an ellipse that fills the image."""
    image = Image.new("RGB", (width, height), (height, width, 120))
    ImageDraw.Draw(image).ellipse((2, 2, width - 3, height - 3), fill=(250, 240, 2 * height))
    return image


def write(path: Path) -> None:
    """Write records that contain each image twice, raw and as JPEG."""
    with tio.TFRecordWriter(path, index=True) as writer:
        for height, width in SIZES:
            image = draw(height, width)
            jpeg = io.BytesIO()
            image.save(jpeg, "JPEG", quality=95, subsampling=0)
            writer.write(
                {
                    "image_raw": image.tobytes(),
                    "shape": [height, width, 3],
                    "height": height,
                    "width": width,
                    "image/encoded": jpeg.getvalue(),
                }
            )


def resize(images: list[Tensor], size: tuple[int, int]) -> Tensor:
    """Resize raw images ``[H, W, 3]`` of different sizes to one batch ``[B, 3, *size]``."""
    planes = [image.permute(2, 0, 1)[None].float() for image in images]
    resized = [F.interpolate(plane, size, mode="bilinear", antialias=True) for plane in planes]
    return torch.cat(resized).round().byte()


def plot(batches: list[Tensor], path: Path) -> None:
    """Save a picture with one row for each batch of images ``[B, 3, H, W]``."""
    rows = [torch.cat(list(batch), dim=2) for batch in batches]
    Image.fromarray(torch.cat(rows, dim=1).permute(1, 2, 0).numpy()).save(path)


def main(folder: Path) -> None:
    """Write the images, read each form in one batch, compare the forms, and plot them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "images.tfrecord"
    write(path)

    [raw] = tio.TFRecordDataset(path, RAW, batch_size=len(SIZES))
    for image, height, width in zip(raw["image_raw"], raw["height"], raw["width"], strict=True):
        print(f"raw {list(image.shape)}")
        assert image.shape == (height, width, 3)
        assert np.array_equal(image, np.asarray(draw(int(height), int(width))))
    resized = resize(raw["image_raw"], (64, 64))

    [jpeg] = tio.TFRecordDataset(path, JPEG, batch_size=len(SIZES))
    difference = (jpeg["image/encoded"].int() - resized.int()).abs().float().mean().item()
    print(f"JPEG and raw differ by {difference:.2f} of 255 on average")
    assert difference < 3

    [padded] = tio.TFRecordDataset(path, PADDED, batch_size=len(SIZES))
    plot([resized, jpeg["image/encoded"], padded["image/encoded"]], folder / "images.png")
    with Image.open(folder / "images.png") as picture:
        print(f"{folder / 'images.png'}: {picture.width}x{picture.height}")
        assert picture.size == (64 * len(SIZES), 64 * 3)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1] if sys.argv[1:] else scratch))
