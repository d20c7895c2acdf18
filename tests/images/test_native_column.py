"""JPEGs of a column that one native call decodes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.images.test_native_jpeg import jpegs
from tests.support.images import column_of, encoded, noise, oriented, record_of, smooth
from torchrec_io import _core, _jpeg, _png
from torchrec_io._images.views import VIEW
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
    """Return a list that gets the number of images that native code leaves to Pillow."""
    counts: list[int] = []
    for module in (_jpeg, _png):

        def record(images: Any, columns: Any, *rest: Any, decode: Any, **options: Any) -> Any:
            helped = decode(images, columns, *rest, **options)
            counts.append(len(columns[0].missing()))
            return helped

        decode = functools.partial(record, decode=module.decode_columns)
        monkeypatch.setattr(module, "decode_columns", decode)
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
        {"size": (20, 30), "filter": "nearest", "max_pixels": 1 << 62},
        {"size": (20, 30), "fast": True},
        {"size": (20, 30), "augment": ByPython(tio.RandomFlip())},
        {},
        {"mixed": "pad"},
        {"augment": tio.RandomResizedCrop(), "layout": "HWC"},
    ],
)
def test_no_image_is_left(options: dict[str, Any], left: list[int]) -> None:
    column_of([encoded(smooth(50, 60), "JPEG")] * 20, **options)
    assert left
    assert not any(left)


@pytest.mark.parametrize(
    "options",
    [
        {"size": (4, 4), "apply_exif_orientation": True},
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
    assert left == [4, 2]
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


FIT = _core.Fit((4, 5), _core.FitMethod.stretch)
JPEG = encoded(smooth(8, 8), "JPEG")


def decode(
    rule: Any = None,
    views: Any = None,
    keys: Any = None,
    shared: Any = None,
    **change: Any,
) -> list[int]:
    """Decode two images to a column; return the positions of those that are missing."""
    numbers = np.array([0, 0]), np.array([0, 0]), np.array([len(JPEG)] * 2)
    images = _core.StoredImages(_core.Records((JPEG,)), *numbers)
    views = np.zeros(2, VIEW).view(np.uint8) if views is None else views
    column = _core.ImageColumn(rule or _core.ViewRule(FIT, 1 << 20), views, keys, shared)
    pixels: dict[str, Any] = {
        "memory": np.zeros(120, np.uint8),
        "offsets": np.array([0, 60]),
        "size": (4, 5),
        "has_planes": True,
        "channels": 3,
        "value_bytes": 1,
        "tables": None,
    }
    column.set_pixels(**(pixels | change))
    _jpeg.decode_columns(images, [column], 1)
    return column.missing()


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({}, []),
        ({"offsets": np.array([0, 61])}, [1]),
        ({"offsets": np.array([-1, 60])}, [0]),
        ({"offsets": np.array([1 << 62, 60])}, [0]),
        ({"size": (4, 6)}, [1]),
        ({"size": (3, 5)}, [0, 1]),
        ({"size": (1 << 40, 1 << 40)}, [0, 1]),
        ({"memory": np.zeros(119, np.uint8)}, [1]),
        ({"shared": np.zeros(112, np.uint8)}, [0, 1]),
    ],
)
def test_nothing_is_written_outside_of_the_memory(
    change: dict[str, Any], missing: list[int]
) -> None:
    assert decode(**change) == missing


@given(st.data())
def test_any_view_is_refused_or_decoded(data: st.DataObject) -> None:
    views = np.zeros(2, VIEW)
    some = st.sampled_from([-1, 0, 1, 4, 5, 8, 9, 1 << 40, -(1 << 63), (1 << 63) - 1])
    for name in ("image", "box", "size", "position"):
        for row in range(2):
            views[name][row] = [data.draw(some) for _ in views[name][row]]
    views["part"] = data.draw(st.sampled_from([0.0, 4.0, 8.0, np.nan, np.inf, -1.0]))
    rule = _core.ViewRule(
        FIT, 1 << 20, nearest=data.draw(st.booleans()), shrink=data.draw(st.booleans())
    )
    assert len(decode(rule=rule, views=views.view(np.uint8))) <= 2


# ---- several views of one image ----


def test_two_views_of_an_image_are_those_of_two_features() -> None:
    images = [encoded(smooth(90 + i, 80), kind) for i, kind in enumerate(("JPEG", "PNG", "GIF"))]
    views = {
        "global": tio.ImageFeature(
            size=(32, 30), augment=tio.RandomResizedCrop((0.4, 1), group="a"), key="image"
        ),
        "local": tio.ImageFeature(
            dtype="float32",
            size=(9, 20),
            augment=tio.RandomResizedCrop((0.05, 0.4), group="b"),
            key="image",
        ),
        "gray": tio.ImageFeature(1, size=(8, 8), key="image"),
        "quick": tio.ImageFeature(size=(8, 8), fast=True, key="image"),
        "whole": tio.ImageFeature(key="image", layout="HWC"),
    }
    messages = [record_of(image) for image in images]
    together = tio.parse_examples(messages, views)
    for name, view in views.items():
        alone = tio.parse_examples(messages, {name: view})[name]
        for one, other in zip(together[name], alone, strict=True):
            assert torch.equal(one, other), name


def test_an_image_is_decoded_once_for_all_its_views(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    decode = _jpeg.decode_columns

    def record(images: Any, columns: Any, *rest: Any, **options: Any) -> Any:
        calls.append(len(columns))
        return decode(images, columns, *rest, **options)

    monkeypatch.setattr(_jpeg, "decode_columns", record)
    schema = {
        name: tio.ImageFeature(size=(8, 8), augment=tio.RandomFlip(group=name), key="image")
        for name in ("a", "b", "c")
    }
    tio.parse_examples([record_of(JPEG)] * 3, schema)
    assert calls == [3]
