"""JPEGs of a column that one native call decodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.images.test_native_jpeg import jpegs
from tests.support.images import column_of, encoded, noise, oriented, smooth
from torchrec_io import _core, _jpeg
from torchrec_io._images.jpeg_markers import MAX_SCANS
from torchrec_io.errors import DecodeError

sides = st.integers(1, 40)


class ByPython:
    """A function with the results of a random crop, which is then called for each image."""

    def __init__(self, augment: Any) -> None:
        self.augment = augment

    def __call__(self, height: int, width: int, rng: np.random.Generator) -> tio.Crop:
        return tio.Crop(*self.augment(height, width, rng))


@st.composite
def columns(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the arguments of a feature with a random part."""
    options: dict[str, Any] = {"size": (draw(sides), draw(sides))}
    options["channels"] = draw(st.sampled_from([1, 2, 3, 4]))
    options["resize"] = draw(st.sampled_from(["stretch", "cover", "contain"]))
    options["fill"] = draw(st.sampled_from([0, 99]))
    options["layout"] = draw(st.sampled_from(["CHW", "HWC"]))
    options["dtype"] = draw(st.sampled_from(["uint8", "float32", "bfloat16"]))
    if options["dtype"] != "uint8" and draw(st.booleans()):
        options["mean"] = [0.5] * options["channels"]
    if options["resize"] == "cover" and draw(st.booleans()):
        options["short_side"] = max(options["size"]) + draw(st.integers(0, 9))
    options["tf_compatible"] = draw(st.booleans())
    return options


@given(
    st.lists(jpegs(), min_size=1, max_size=3),
    columns(),
    st.sampled_from([tio.RandomResizedCrop(), tio.RandomCrop((1, 1)), tio.RandomFlip()]),
)
def test_values_are_those_of_images_decoded_one_by_one(
    images: list[bytes], options: dict[str, Any], augment: Any
) -> None:
    found = column_of(images, augment=augment, **options)
    one_by_one = column_of(images, augment=ByPython(augment), **options)
    assert torch.equal(found, one_by_one)


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of images that each native call leaves to others."""
    counts: list[int] = []
    decode = _jpeg.decode_column

    def record(*args: Any, **options: Any) -> Any:
        found = decode(*args, **options)
        counts.append(len(found))
        return found

    monkeypatch.setattr(_jpeg, "decode_column", record)
    return counts


@pytest.mark.parametrize(
    "options",
    [
        {"size": (20, 30)},
        {"size": (20, 30), "resize": "contain", "fill": 7, "dtype": "float32"},
        {"size": (20, 30), "resize": "cover", "short_side": 33, "layout": "HWC"},
        {"size": (20, 30), "crop": (1, 2, 20, 30), "resize": None},
        {"size": (20, 30), "augment": tio.RandomResizedCrop(), "channels": 1},
        {"size": (20, 30), "tf_compatible": True, "max_pixels": 1 << 60},
    ],
)
def test_no_image_is_left(options: dict[str, Any], left: list[int]) -> None:
    column_of([encoded(smooth(50, 60), "JPEG")] * 20, **options)
    assert sum(left) == 0
    assert len(left) > 1


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"size": (4, 4), "fast": True},
        {"size": (4, 4), "apply_exif_orientation": True},
        {"size": (4, 4), "augment": ByPython(tio.RandomFlip())},
        {"size": (4, 4), "decoder": "pillow"},
        {"size": (4, 4), "channels": 0},
    ],
)
def test_other_features_decode_image_by_image(options: dict[str, Any], left: list[int]) -> None:
    jpeg = encoded(smooth(8, 9), "JPEG", exif=oriented(1))
    assert len(column_of([jpeg] * 3, **options)) == 3
    assert left == []


def test_other_images_of_a_column_are_decoded(left: list[int]) -> None:
    pixels = noise(5, 6)
    images = [encoded(pixels, kind) for kind in ("PNG", "BMP", "JPEG", "PNG", "GIF")]
    column = column_of(images, size=(5, 6), layout="HWC", augment=tio.RandomFlip(0))
    assert sum(left) == 4
    for at in (0, 1, 3):
        assert column[at].tolist() == pixels.tolist()


def test_reasons_are_those_of_single_images() -> None:
    jpeg = encoded(smooth(50, 60), "JPEG")
    cases: list[tuple[bytes, dict[str, Any], str]] = [
        (jpeg[:-30], {}, "the image cannot be decoded: it is truncated"),
        (jpeg, {"max_pixels": 2999}, "the image claims 60 x 50 pixels, more than max_pixels=2999"),
        (jpeg, {"crop": (0, 0, 51, 60)}, "the crop of 51 x 60 pixels at row 0, column 0 does not"),
        (jpeg, {"crop": (1 << 70, 0, 1 << 70, 1)}, "does not fit in the image of 50 x 60"),
        (jpeg, {"resize": None}, "the image has 50 x 60 pixels, the schema wants 4 x 4"),
        (jpeg, {"augment": tio.RandomCrop((51, 1))}, "the augment function raised ValueError"),
    ]
    for data, options, reason in cases:
        with pytest.raises(DecodeError, match=reason) as caught:
            column_of([data], size=(4, 4), **options)
        assert (caught.value.record, caught.value.feature) == (0, "image")


def arguments() -> dict[str, Any]:
    jpeg = encoded(smooth(8, 8), "JPEG")
    return {
        "records": _core.Records((jpeg,)),
        "which": np.array([0]),
        "offsets": np.array([0]),
        "sizes": np.array([len(jpeg)]),
        "targets": np.zeros((1, 4, 5, 3), np.uint8),
        "rule": _core.ViewRule(_core.Fit((4, 5), _core.FitMethod.stretch), 1 << 20),
        "max_scans": MAX_SCANS,
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"which": np.array([1])}, "a record does not exist"),
        ({"which": np.array([-1])}, "a record does not exist"),
        ({"which": np.array([0, 0])}, "must have the same size"),
        ({"offsets": np.array([1])}, "an image must lie in its record"),
        ({"offsets": np.array([-1])}, "an image must lie in its record"),
        ({"sizes": np.array([-1])}, "an image must lie in its record"),
        ({"targets": np.zeros((2, 4, 5, 3), np.uint8)}, "each image must have a target"),
        ({"targets": np.zeros((1, 5, 4, 3), np.uint8)}, "a target must have the shape"),
        ({"targets": np.zeros((1, 4, 5, 3), np.float32)}, "tables must have 256 values"),
        ({"rule": "random", "keys": None}, "a random part needs keys"),
        ({"rule": "random", "keys": b"x" * 15}, "each image must have a key of 16 bytes"),
    ],
)
def test_wrong_arguments_are_refused(change: dict[str, Any], message: str) -> None:
    given = arguments() | change
    if given["rule"] == "random":
        fit = _core.Fit((4, 5), _core.FitMethod.stretch)
        given["rule"] = _core.ViewRule(fit, 1 << 20, augment=_core.RandomFlip(0.5))
    with pytest.raises((ValueError, IndexError), match=message):
        _jpeg.decode_column(**given)


def test_wrong_rules_are_refused() -> None:
    with pytest.raises(ValueError, match="a size must be positive"):
        _core.Fit((0, 5), _core.FitMethod.stretch)
    fit = _core.Fit((4, 5), _core.FitMethod.stretch)
    for box in [(-1, 0, 1, 1), (0, -1, 1, 1), (0, 0, 0, 1), (0, 0, 1, 0)]:
        with pytest.raises(ValueError, match="a crop must have pixels"):
            _core.ViewRule(fit, 1, box)
