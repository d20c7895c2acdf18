"""Cropping and resizing of images, compared with separate steps in Pillow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, reject
from hypothesis import strategies as st
from PIL import Image, ImageOps

import torchrec_io as tio
from tests.support.images import MODES, Pixels, column_of, decoded, encoded, noise
from torchrec_io._images.random_crop import choose_builtin, generator_of, is_builtin
from torchrec_io.errors import DecodeError, SchemaError

BILINEAR = Image.Resampling.BILINEAR
sizes = st.integers(1, 40)


class Always:
    """An ``augment`` that always returns the same value."""

    def __init__(self, crop: Any) -> None:
        self.crop = crop

    def __call__(self, height: int, width: int, rng: np.random.Generator) -> Any:
        return self.crop


@st.composite
def boxes(draw: st.DrawFn, height: int, width: int) -> tuple[int, int, int, int]:
    """Draw boxes in an image: top, left, height and width."""
    top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    return (
        top,
        left,
        draw(st.integers(1, height - top)),
        draw(st.integers(1, width - left)),
    )


def cut(image: Image.Image, box: tuple[int, ...]) -> Image.Image:
    top, left, height, width = box[:4]
    return image.crop((left, top, left + width, top + height))


def model(pixels: Pixels, options: dict[str, Any]) -> Pixels:
    """Crop and resize an image in separate steps."""
    image = Image.fromarray(pixels)
    if options.get("crop"):
        image = cut(image, options["crop"])
    flip = False
    if options.get("augment"):
        image = cut(image, options["augment"].crop)
        flip = options["augment"].crop.flip
    image = image.convert(MODES[options["channels"]])
    at, size = (0, 0), options.get("size")
    if size is not None:
        target = (size[1], size[0])
        if options["resize"] == "stretch":
            image = image.resize(target, BILINEAR)
        elif options["resize"] == "cover":
            image = ImageOps.fit(image, target, BILINEAR)
        else:
            image = ImageOps.contain(image, target, BILINEAR)
            if 0 in image.size:
                raise ValueError("nothing is left")
            at = round((target[1] - image.height) * 0.5), round((target[0] - image.width) * 0.5)
    array = np.asarray(image)
    array = array.reshape(*array.shape[:2], options["channels"])
    array = array[:, ::-1] if flip else array
    if size is None:
        return array
    canvas = np.full((*size, options["channels"]), options["fill"], np.uint8)
    canvas[at[0] : at[0] + array.shape[0], at[1] : at[1] + array.shape[1]] = array
    return canvas


@st.composite
def cases(draw: st.DrawFn) -> tuple[Pixels, dict[str, Any]]:
    """Draw an image and valid arguments of a feature."""
    height, width = draw(sizes), draw(sizes)
    pixels = noise(height, width, draw(st.sampled_from([1, 3, 4])))
    options: dict[str, Any] = {"channels": draw(st.sampled_from([1, 3, 4]))}
    if draw(st.booleans()):
        options["crop"] = draw(boxes(height, width))
        height, width = options["crop"][2:]
    if draw(st.booleans()):
        crop = tio.Crop(*draw(boxes(height, width)), draw(st.booleans()))
        options["augment"] = Always(crop)
    options["fill"] = draw(st.integers(0, 255))
    if draw(st.booleans()):
        options["size"] = draw(st.tuples(sizes, sizes))
        options["resize"] = draw(st.sampled_from(["stretch", "cover", "contain"]))
    return pixels, options


@given(cases(), st.sampled_from(["CHW", "HWC"]))
def test_any_crop_at_any_size(case: tuple[Pixels, dict[str, Any]], layout: Any) -> None:
    pixels, options = case
    try:
        expected = model(pixels, options)
    except ValueError:  # Pillow reduces thin images to nothing, see below
        reject()
    if layout == "CHW":
        expected = expected.transpose(2, 0, 1)
    # Images that are decoded natively may differ by a level once they are resized.
    for decoder, most in (("pillow", 0), ("auto", int("size" in options))):
        [found] = column_of([encoded(pixels)], layout=layout, decoder=decoder, **options)
        assert found.is_contiguous()
        np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=most)


@given(cases(), st.sampled_from(["float32", "float64", "float16"]))
def test_floats_are_scaled_pixels(case: tuple[Pixels, dict[str, Any]], dtype: str) -> None:
    pixels, options = case
    whole = decoded(encoded(pixels), **options).astype(np.float64) / 255
    found = decoded(encoded(pixels), dtype=dtype, **options)
    assert found.dtype == dtype
    close = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-6}[dtype]
    np.testing.assert_allclose(found, whole, rtol=0, atol=close)


@pytest.mark.parametrize("shape", [(1, 400), (400, 1)])
def test_thin_images_do_not_vanish(shape: tuple[int, int]) -> None:
    found = decoded(encoded(noise(*shape, 1)), channels=1, size=(9, 9), resize="contain")[..., 0]
    lines = found if shape[0] == 1 else found.T
    assert lines[4].any()
    assert not lines[:4].any()
    assert not lines[5:].any()


@pytest.mark.parametrize(
    ("box", "size"),
    [
        ((0, 0, 5, 8), None),
        ((0, 0, 6, 7), (3, 3)),
        ((5, 0, 1, 1), None),
        ((0, 7, 1, 1), (3, 3)),
    ],
)
def test_box_outside_the_image_is_an_error_of_its_record(
    box: tuple[int, ...], size: tuple[int, int] | None
) -> None:
    images = [encoded(noise(12, 15)), encoded(noise(5, 7)), encoded(noise(5, 7))]
    with pytest.raises(DecodeError, match="does not fit in the image of 5 x 7") as caught:
        column_of(images, crop=box, size=size)
    assert (caught.value.record, caught.value.feature) == (1, "image")
    assert f"{box[2]} x {box[3]} pixels at row {box[0]}, column {box[1]}" in str(caught.value)


# ---- custom augment functions ----


@pytest.mark.parametrize(
    ("crop", "reason"),
    [
        (tio.Crop(0, 0, 6, 7), "not in the image of 5 x 7"),
        (tio.Crop(0, 1, 5, 7), "not in the image of 5 x 7"),
        (tio.Crop(-1, 0, 5, 7), "not in the image of 5 x 7"),
        (tio.Crop(0, -1, 5, 7), "not in the image of 5 x 7"),
        (tio.Crop(0, 0, 0, 7), "not in the image of 5 x 7"),
        (tio.Crop(0, 0, 5, 0), "not in the image of 5 x 7"),
        (tio.Crop(0, 0, -5, 7), "not in the image of 5 x 7"),
        (tio.Crop(10**30, 0, 1, 1), "not in the image of 5 x 7"),
        (tio.Crop(0, 0, 2.0, 2), "must return a Crop of integers, got Crop"),  # type: ignore[arg-type]  # the mistake
        (tio.Crop(0, 0, 2, 2, np.zeros(2)), "must return a Crop of integers"),  # type: ignore[arg-type]  # as above
        ((0, 0, 2, 2, False), "must return a Crop of integers, got"),
        (None, "must return a Crop of integers, got None"),
    ],
)
def test_invalid_box_is_an_error_of_its_record(crop: Any, reason: str) -> None:
    for size in (None, (3, 3)):
        with pytest.raises(DecodeError, match=reason) as caught:
            column_of([encoded(noise(5, 7))], augment=Always(crop), size=size)
        assert (caught.value.record, caught.value.feature) == (0, "image")


def test_numpy_integers_are_accepted() -> None:
    box = np.array([1, 2, 3, 4])
    crop = tio.Crop(*box, flip=np.bool_(True))  # type: ignore[misc,arg-type]  # as people have them
    array = noise(6, 7)
    found = decoded(encoded(array), augment=Always(crop))
    assert found.tolist() == array[1:4, 2:6][:, ::-1].tolist()


def test_exception_of_the_function_is_an_error_of_its_record() -> None:
    def refuse(height: int, width: int, _: np.random.Generator) -> tio.Crop:
        if height == 5:
            raise KeyError("five")
        return tio.Crop(0, 0, height, width)

    with pytest.raises(DecodeError, match="augment function raised KeyError: 'five'") as caught:
        column_of([encoded(noise(4, 7)), encoded(noise(5, 7))], augment=refuse)
    assert (caught.value.record, caught.value.feature) == (1, "image")


def test_function_gets_the_size_after_the_crop() -> None:
    seen: list[tuple[int, int]] = []

    def look(height: int, width: int, _: np.random.Generator) -> tio.Crop:
        seen.append((height, width))
        return tio.Crop(height - 1, 0, 1, width)

    array = noise(9, 8)
    found = decoded(encoded(array), crop=(1, 2, 5, 4), augment=look)
    assert seen == [(5, 4)]
    assert found.tolist() == array[5:6, 2:6].tolist()


# ---- augment functions of the package ----


def torchvision_box(
    height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float], rng: Any
) -> tuple[int, int, int, int]:
    """Return the box of torchvision's RandomResizedCrop.get_params for our random numbers."""
    area = height * width
    log_ratio = np.log(ratio)
    for _ in range(10):
        target_area = area * rng.uniform(scale[0], scale[1])
        aspect_ratio = np.exp(rng.uniform(log_ratio[0], log_ratio[1]))
        w = round(np.sqrt(target_area * aspect_ratio))
        h = round(np.sqrt(target_area / aspect_ratio))
        if 0 < w <= width and 0 < h <= height:
            i = rng.integers(0, height - h + 1)
            j = rng.integers(0, width - w + 1)
            return i, j, h, w
    in_ratio = float(width) / float(height)
    if in_ratio < min(ratio):
        w = width
        h = round(w / min(ratio))
    elif in_ratio > max(ratio):
        h = height
        w = round(h * max(ratio))
    else:
        w = width
        h = height
    return (height - h) // 2, (width - w) // 2, h, w


fractions = st.floats(0.01, 1)
ratios = st.floats(0.1, 10)


@given(
    st.integers(1, 300),
    st.integers(1, 300),
    st.tuples(fractions, fractions).map(sorted),
    st.tuples(ratios, ratios).map(sorted),
    st.integers(0, 2**32),
)
def test_random_resized_crops_equal_those_of_torchvision(
    height: int, width: int, scale: Any, ratio: Any, seed: int
) -> None:
    crop = tio.RandomResizedCrop(scale, ratio)(height, width, np.random.default_rng(seed))
    top, left, rows, columns = torchvision_box(
        height, width, scale, ratio, np.random.default_rng(seed)
    )
    assert crop[:4] == (top, left, max(1, rows), max(1, columns)) or min(rows, columns) == 0
    assert 0 <= crop.top <= height - crop.height
    assert 0 <= crop.left <= width - crop.width
    assert min(crop.height, crop.width) >= 1


@given(
    st.integers(1, 70_000),
    st.integers(1, 70_000),
    st.tuples(fractions, fractions).map(sorted),
    st.tuples(ratios, ratios).map(sorted),
    st.tuples(st.floats(0, 1), st.binary(min_size=16, max_size=16)),
)
def test_native_crops_are_those_of_the_python_functions(
    height: int, width: int, scale: Any, ratio: Any, random: tuple[float, bytes]
) -> None:
    flip, key = random
    for augment in (
        tio.RandomResizedCrop(scale, ratio, flip),
        tio.RandomCrop((height // 2 + 1, width // 3 + 1), flip),
        tio.RandomFlip(flip),
    ):
        assert is_builtin(augment)
        expected = augment(height, width, generator_of(key))
        chosen = choose_builtin(augment, height, width, key)
        assert chosen == expected
        assert list(map(type, chosen)) == list(map(type, expected))


def test_subclass_of_a_random_crop_is_called() -> None:
    class Upper(tio.RandomFlip):
        def __call__(self, height: int, width: int, rng: np.random.Generator) -> tio.Crop:
            return super().__call__(height // 2, width, rng)

    [image] = column_of([encoded(noise(6, 5))], augment=Upper(flip=0))
    assert image.shape == (3, 3, 5)


def test_random_resized_crops_are_distributed_over_the_image() -> None:
    crop = tio.RandomResizedCrop()
    rng = np.random.default_rng(1)
    drawn = [crop(200, 200, rng) for _ in range(2000)]
    areas = np.array([c.height * c.width / 40_000 for c in drawn])
    assert 0.07 < areas.min() < 0.1
    assert 0.4 < areas.mean() < 0.56
    shapes = np.array([c.width / c.height for c in drawn])
    assert 0.7 < shapes.min() < 0.8
    assert 1.3 < shapes.max() < 1.4
    assert abs(np.mean([c.flip for c in drawn]) - 0.5) < 0.05


def test_random_crops_are_distributed_over_the_image() -> None:
    rng = np.random.default_rng(1)
    drawn = [tio.RandomCrop((3, 2), flip=0.25)(5, 5, rng) for _ in range(1000)]
    assert {(c.top, c.left) for c in drawn} == {(y, x) for y in range(3) for x in range(4)}
    assert abs(np.mean([c.flip for c in drawn]) - 0.25) < 0.05
    assert not any(tio.RandomCrop((3, 2), flip=0)(5, 5, rng).flip for _ in range(99))
    assert all(tio.RandomCrop((3, 2), flip=1)(5, 5, rng).flip for _ in range(99))


@pytest.mark.parametrize("shape", [(3, 5), (4, 4)])
def test_image_smaller_than_a_random_crop_is_an_error(shape: tuple[int, int]) -> None:
    crop = tio.RandomCrop((4, 5))
    reason = f"image of {shape[0]} x {shape[1]} pixels is smaller than the crop of 4 x 5"
    with pytest.raises(DecodeError, match=reason) as caught:
        column_of([encoded(noise(4, 5)), encoded(noise(*shape))], augment=crop, size=(4, 5))
    assert (caught.value.record, caught.value.feature) == (1, "image")


# ---- invalid arguments ----


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"scale": (0, 1)}, "scale must be two positive numbers"),
        ({"scale": (0.5, 1.1)}, "scale must be at most 1"),
        ({"scale": (0.5, 0.4)}, "scale must be two positive numbers"),
        ({"scale": 0.5}, "scale must be two positive numbers"),
        ({"ratio": (1, float("inf"))}, "ratio must be two positive numbers"),
        ({"ratio": (True, 2)}, "ratio must be two positive numbers"),
        ({"flip": 1.5}, "flip must be"),
        ({"flip": float("nan")}, "flip must be"),
        ({"flip": "half"}, "flip must be"),
    ],
)
def test_invalid_crops_are_rejected(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        tio.RandomResizedCrop(**arguments)
    with pytest.raises(SchemaError, match="size must be"):
        tio.RandomCrop((0, 5))


def test_empty_batch() -> None:
    assert column_of([], augment=tio.RandomCrop((2, 2))) == []
    assert column_of([], size=(2, 3), resize="cover").shape == (0, 3, 2, 3)
    assert isinstance(column_of([], mixed="pad"), torch.Tensor)
