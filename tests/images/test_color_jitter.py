"""Random colors: the pixels of torchvision. ``test_image_epochs.py`` has what they depend on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import torchrec_io as tio
from tests.support.images import (
    Pixels,
    column_of,
    decoded,
    encoded,
    noise,
    opened,
    record_of,
)
from torchrec_io._images.random_crop import generator_of
from torchrec_io._parsing.record_random import RecordRandom

Floats = npt.NDArray[np.float32]

# ---- torchvision.transforms.v2.functional for uint8, with PyTorch's fused multiply-add ----


def fused(values: Any, factor: float, summand: Any) -> Floats:
    """Return ``values * factor + summand``, rounded once to float32."""
    exact = np.asarray(values, np.float64) * float(np.float32(factor)) + np.float64(summand)
    return np.asarray(exact, np.float32)


def to_levels(values: Any) -> Pixels:
    return np.asarray(np.clip(values, 0, 255), np.uint8)


def gray_levels(image: Pixels) -> Floats:
    red, green, blue = np.moveaxis(image, -1, 0)
    first = np.float32(red) * np.float32(0.2989)
    return np.floor(fused(blue, 0.114, fused(green, 0.587, first)))


def blend(image: Pixels, other: Any, factor: float) -> Pixels:
    return to_levels(fused(other, 1 - factor, np.float32(image) * np.float32(factor)))


def brightness(image: Pixels, factor: float) -> Pixels:
    return to_levels(np.float32(image) * np.float32(factor))


def contrast(image: Pixels, factor: float) -> Pixels:
    gray = gray_levels(image)
    return blend(image, np.float32(gray.sum(dtype=np.float64)) / np.float32(gray.size), factor)


def saturation(image: Pixels, factor: float) -> Pixels:
    return blend(image, gray_levels(image)[..., np.newaxis], factor)


def hue(image: Pixels, factor: float) -> Pixels:
    """Turn the hue in float32, through HSV."""
    colors = image.astype(np.float32) * np.float32(1 / 255)
    largest, smallest = colors.max(-1), colors.min(-1)
    is_gray = largest == smallest
    one = np.float32(1)
    part = (largest - smallest) / np.where(is_gray, one, largest)
    span = np.where(is_gray, one, largest - smallest)[..., np.newaxis]
    red, green, blue = np.moveaxis((largest[..., np.newaxis] - colors) / span, -1, 0)
    is_red, is_green = colors[..., 0] == largest, colors[..., 1] == largest
    turn = np.select([is_red, is_green], [blue - green, red + 2 - blue], green + 4 - red)
    turn = np.fmod(turn * np.float32(1 / 6) + one, one)
    sixths = np.mod(turn + np.float32(factor), one) * 6
    whole = np.floor(sixths)
    along = part * (sixths - whole)
    falling, rising = (one - along) * largest, (along + (one - part)) * largest
    least = (one - part) * largest
    chosen = {"v": largest, "p": least, "q": falling, "t": rising}
    orders = ("vqpptv", "tvvqpp", "pptvvq")
    turned = [
        np.select([whole % 6 == sixth for sixth in range(6)], [chosen[one] for one in order])
        for order in orders
    ]
    return to_levels(np.clip(np.stack(turned, -1), 0, 1) * np.float32(255.999))


CHANGES: dict[str, Callable[[Pixels, float], Pixels]] = {
    "brightness": brightness,
    "contrast": contrast,
    "saturation": saturation,
    "hue": hue,
}


def jittered(image: Pixels, jitter: tio.ColorJitter, key: bytes) -> Pixels:
    """Return an image with the documented random numbers, in the documented order."""
    rng = generator_of(key)
    if rng.random() >= jitter.p:
        return image
    order = list(CHANGES)
    for place in (3, 2, 1):
        other = int(rng.integers(place + 1))
        order[place], order[other] = order[other], order[place]
    ranges = jitter.ranges._asdict()
    same = {"brightness": (1, 1), "contrast": (1, 1), "saturation": (1, 1), "hue": (0, 0)}
    factors = {
        name: float(rng.uniform(*ranges[name])) for name in CHANGES if ranges[name] != same[name]
    }
    for name in order:
        if name in factors:
            image = CHANGES[name](image, factors[name])
    return image


def key_of(number: int, seed: int = 0, epoch: int = 0, name: str = "image") -> bytes:
    return RecordRandom(seed, epoch).key(np.int64(number), f"{name} jitter")


# ---- pixels ----


def colorful() -> Pixels:
    """Return noise, grays, and colors without red, green or blue."""
    image = noise(61, 67, seed=3).copy()
    image[:4] = np.arange(268).reshape(4, 67, 1)
    image[4:8, :, 0], image[8:12, :, 1], image[12:16, :, 2] = 0, 0, 0
    image[16:20] = np.where(image[16:20] < 128, 0, 255)
    image[20:24, :, 1] = image[20:24, :, 0]
    return image


@pytest.mark.parametrize("factor", [0, 0.5, 1, 1.7, 1_000_000])
@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation"])
def test_one_change_has_the_pixels_of_torchvision(name: str, factor: float) -> None:
    image = colorful()
    arguments: dict[str, Any] = {name: (factor, factor)}
    found = decoded(encoded(image), jitter=tio.ColorJitter(**arguments))
    assert found.tolist() == CHANGES[name](image, factor).tolist()


@pytest.mark.parametrize("factor", [-0.5, -0.17, 0, 0.01, 1 / 6, 1 / 3, 0.5])
def test_a_hue_differs_from_torchvision_by_at_most_one_level(factor: float) -> None:
    image = colorful()
    found = decoded(encoded(image), jitter=tio.ColorJitter(hue=(factor, factor)))
    differences = np.abs(found.astype(int) - hue(image, factor))
    assert differences.max() <= 1
    assert (differences > 0).mean() < 0.001
    assert (found.max(-1) == image.max(-1)).all()
    assert (found.min(-1) == image.min(-1)).all()


def test_the_contrast_of_a_large_image() -> None:
    image = noise(300, 301, seed=1) // 2 + 100
    found = decoded(encoded(image), jitter=tio.ColorJitter(contrast=(1.5, 1.5)))
    assert found.tolist() == contrast(image, 1.5).tolist()


STRONG = tio.ColorJitter(0.4, 0.4, (0.2, 1.9))
FULL = tio.ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.7)


def test_all_changes_of_some_images() -> None:
    images = [noise(9, 11, seed=number) for number in range(40)]
    batch = column_of([encoded(image) for image in images], jitter=FULL, layout="HWC")
    unchanged = 0
    for number, image in enumerate(images):
        expected = jittered(image, FULL, key_of(number))
        # A level that differs by one after the hue may differ by two after a change of contrast.
        assert np.abs(batch[number].numpy().astype(int) - expected).max() <= 2
        unchanged += batch[number].tolist() == image.tolist()
    assert 5 <= unchanged <= 20


def test_no_change() -> None:
    data = encoded(colorful())
    for jitter in (tio.ColorJitter(), tio.ColorJitter(2, 2, 2, 0.5, p=0)):
        assert decoded(data, jitter=jitter).tolist() == decoded(data).tolist()


# ---- kinds of images and columns ----

OPTIONS: list[dict[str, Any]] = [
    {},
    {"decoder": "pillow"},
    {"fast": True},
    {"size": (12, 10)},
    {"size": (12, 10), "filter": "nearest"},
    {"size": (12, 10), "augment": tio.RandomFlip(1)},
    {"size": (12, 10), "augment": tio.RandomResizedCrop()},
    {"crop": (3, 2, 9, 8)},
    {"mixed": "pad"},
]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF"])
@pytest.mark.parametrize("options", OPTIONS)
def test_colors_change_after_all_else(kind: str, options: dict[str, Any]) -> None:
    data = encoded(noise(20, 18), kind)
    expected = jittered(decoded(data, **options), STRONG, key_of(0))
    assert decoded(data, jitter=STRONG, **options).tolist() == expected.tolist()


@pytest.mark.parametrize("channels", [1, 4])
def test_images_that_become_rgb(channels: int) -> None:
    data = encoded(noise(20, 18, channels))
    expected = jittered(np.asarray(opened(data).convert("RGB")), STRONG, key_of(0))
    assert decoded(data, jitter=STRONG).tolist() == expected.tolist()


def test_fill_is_not_changed() -> None:
    bright = tio.ColorJitter((2, 2))
    options: dict[str, Any] = {"size": (20, 40), "resize": "contain", "fill": 50, "jitter": bright}
    image = decoded(encoded(noise(20, 20) // 8 + 40), **options)
    assert (image[:, :10] == 50).all()
    assert (image[:, 30:] == 50).all()
    assert (image[:, 10:30] >= 80).all()


def test_normalized_values_are_those_of_the_changed_levels() -> None:
    images = [encoded(noise(20, 18, seed=number), "JPEG") for number in range(4)]
    levels = column_of(images, size=(9, 7), jitter=STRONG)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    values = column_of(
        images, size=(9, 7), jitter=STRONG, dtype="float32", mean=mean, std=std, layout="HWC"
    )
    expected = (levels.permute(0, 2, 3, 1) / 255 - torch.tensor(mean)) / torch.tensor(std)
    torch.testing.assert_close(values, expected)


def test_frames_of_a_record_get_the_same_change() -> None:
    frames = [noise(8, 9, seed=number) for number in range(3)]
    element = tio.ImageFeature(size=(8, 9), jitter=STRONG, layout="HWC")
    records = [tio.encode_example({"image": [encoded(frame) for frame in frames]})] * 2
    found = tio.parse_examples(records, {"image": tio.SequenceFeature(element)})["image"]
    for record, values in enumerate(found.tolist()):
        expected = [jittered(frame, STRONG, key_of(record)).tolist() for frame in frames]
        assert values == expected
    assert found.tolist()[0] != found.tolist()[1]


def test_features_of_a_crop_group_get_their_own_colors() -> None:
    crop = tio.RandomResizedCrop(group="view")
    data = encoded(noise(30, 40))
    features = {
        name: tio.ImageFeature(size=(8, 9), augment=crop, jitter=jitter, layout="HWC", key="image")
        for name, jitter in (("one", STRONG), ("two", STRONG), ("plain", None))
    }
    batch = tio.parse_examples([record_of(data)], features)
    plain = batch["plain"][0].numpy()
    for name in ("one", "two"):
        expected = jittered(plain, STRONG, key_of(0, name=name))
        assert batch[name][0].tolist() == expected.tolist()
    assert not torch.equal(batch["one"], batch["two"])
