"""JPEGs decoded natively at a lower scale; and undecoded JPEGs."""

from __future__ import annotations

import importlib.util
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.images import (
    column_of,
    decoded,
    encoded,
    noise,
    opened,
    record_of,
    smooth,
)
from torchrec_io._images import native

# ---- scaled decoding ----


def scale_of(part: tuple[int, int], size: tuple[int, int]) -> int:
    """Return the eighths at which a part of an image is decoded, to be resized to a size."""
    for eighths in (1, 2, 4):
        if all(stored * eighths >= 8 * wanted for stored, wanted in zip(part, size, strict=True)):
            return eighths
    return 8


@pytest.mark.parametrize("scale", [1, 2, 4])
def test_crops_at_a_corner_that_only_need_scaling(scale: int) -> None:
    jpeg = encoded(smooth(128, 128), "JPEG", quality=95)
    # At this scale, the decoded part of the image has exactly the requested size.
    side = 64 * scale // 8
    options: dict[str, Any] = {"size": (side, side)}
    for top, left in [(0, 0), (0, 64), (64, 0), (64, 64)]:
        options["crop"] = (top, left, 64, 64)
        found = decoded(jpeg, fast=True, **options)
        assert np.abs(found.astype(int) - decoded(jpeg, **options)).max() < 40


@given(
    stored=st.tuples(st.integers(64, 300), st.integers(64, 300)),
    # A pixel at an edge also depends on cropped pixels, mostly so in very small images.
    size=st.tuples(st.integers(8, 100), st.integers(8, 100)),
    data=st.data(),
)
def test_scaled_images_are_not_shifted(
    stored: tuple[int, int], size: tuple[int, int], data: st.DataObject
) -> None:
    height, width = stored
    array = np.empty((height, width, 3), np.uint8)
    # In a linear gradient, a shift changes all values in proportion.
    array[..., 0] = np.linspace(20, 235, height)[:, np.newaxis]
    array[..., 1] = np.linspace(20, 235, width)
    array[..., 2] = 128
    jpeg = encoded(array, "JPEG", quality=100, subsampling=0)
    top, left = data.draw(st.integers(0, height // 2)), data.draw(st.integers(0, width // 2))
    part = height - top, width - left
    options: dict[str, Any] = {"size": size, "crop": (top, left, *part)}
    by_pillow = decoded(jpeg, decoder="pillow", **options).astype(int)
    found = decoded(jpeg, fast=True, **options).astype(int)
    # At an edge, tolerate about one decoded pixel, because the last one may contain a single stored
    # pixel. On average, tolerate much less, for rounding in JPEG and the filters.
    rows, columns = (-(-side * scale_of(part, size) // 8) for side in (height, width))
    slopes = 215 / np.array([rows, columns, 1e9])
    moved = found - by_pillow
    assert (np.abs(moved).max(axis=(0, 1)) <= 4 + 1.5 * slopes).all()
    assert (np.abs(moved.mean(axis=(0, 1))) <= 2 + 0.3 * slopes).all()


@given(st.integers(1, 40), st.integers(1, 40))
def test_smallest_images(height: int, width: int) -> None:
    data = encoded(noise(height, width), "JPEG")
    assert decoded(data, fast=True, size=(1, 1)).shape == (1, 1, 3)


def test_scaled_with_an_augment() -> None:
    data = encoded(smooth(400, 300), "JPEG")
    feature = {"size": (40, 40), "augment": tio.RandomResizedCrop()}
    found = column_of([data] * 8, fast=True, **feature).to(torch.float64)
    by_pillow = column_of([data] * 8, decoder="pillow", **feature).to(torch.float64)
    assert len({image.numpy().tobytes() for image in found}) == 8
    assert (found - by_pillow).abs().mean() < 4


# ---- builds without libjpeg-turbo ----


def test_build_without_libjpeg_turbo(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def find_none(name: str, package: str | None = None) -> Any:
        return None if name == "torchrec_io._jpeg" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_none)
    monkeypatch.setattr(native, "_jpeg", None)
    for arguments in ({"decoder": "native"}, {"fast": True}, {"tf_compatible": True}):
        with pytest.raises(ImportError, match="need a build with libjpeg-turbo"):
            tio.ImageFeature(**arguments)
    data = encoded(smooth(20, 30), "JPEG")
    assert decoded(data).tolist() == np.asarray(opened(data)).tolist()


# ---- undecoded images ----


def test_undecoded_images_are_bytes_in_the_arena() -> None:
    images = [encoded(noise(5, 6), "JPEG"), b"", b"no image at all", encoded(noise(9, 9), "JPEG")]
    schema = {"image": tio.ImageFeature(decoder=None), "id": tio.FixedLenFeature([], "int64")}
    batch = tio.parse_examples([record_of(image) for image in images], schema)
    column = batch["image"]
    assert isinstance(column, tio.BytesArray)
    assert (column.shape, column.tolist()) == ((4,), images)
    assert column.data.untyped_storage().data_ptr() == batch.arena.untyped_storage().data_ptr()
    assert [sample["image"] for sample in batch.samples()] == images
    again = pickle.loads(pickle.dumps(batch))
    assert again["image"].tolist() == images


def test_views_share_the_memory_of_values() -> None:
    values = [b"abc", b"", b"defg"]
    array = tio.BytesArray.from_list(values)
    views = array.views()
    assert [view.numpy().tobytes() for view in views] == values
    assert [(view.dtype, view.dim()) for view in views] == [(torch.uint8, 1)] * 3
    views[0][0] = ord("x")
    assert array.tolist() == [b"xbc", b"", b"defg"]
    rows = tio.BytesArray(array.data, array.offsets, (3, 1))
    part = rows[1:3]
    assert isinstance(part, tio.BytesArray)
    assert [view.numpy().tobytes() for view in part.views()] == values[1:]
    assert tio.BytesArray.from_list([]).views() == []
