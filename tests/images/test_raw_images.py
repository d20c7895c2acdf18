"""Images that are stored as their pixels, cropped and resized like encoded ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.images import encoded, noise
from torchrec_io.errors import DecodeError

CROP = tio.RandomResizedCrop((0.1, 0.9), group="view")
KEYS = ["height", "width", "channel"]


def message_of(pixels: Any) -> bytes:
    """Return a record with the pixels of an image, their shape, and a PNG of them."""
    shape = dict(zip(KEYS, pixels.shape, strict=True))
    stored = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    return tio.encode_example({"raw": pixels.tobytes(), "png": encoded(stored), **shape})


def left_half(height: int, width: int, rng: np.random.Generator) -> tio.Crop:
    return tio.Crop(0, 0, height, max(1, width // 2), flip=bool(rng.random() < 0.5))


left_half.group = "view"  # type: ignore[attr-defined]


@given(
    st.lists(st.tuples(st.integers(1, 70), st.integers(1, 70)), min_size=1, max_size=4),
    st.sampled_from([1, 3]),
    st.one_of(st.none(), st.tuples(st.integers(1, 20), st.integers(1, 20))),
    st.sampled_from([CROP, tio.RandomFlip(group="view"), left_half, None]),
)
def test_values_are_those_of_encoded_images(
    sizes: list[tuple[int, int]], channels: Any, size: Any, augment: Any
) -> None:
    images = [noise(*each, channels, seed=at) for at, each in enumerate(sizes)]
    images = [each.reshape(*each.shape[:2], channels) for each in images]
    if size is None and augment is None:
        size = (5, 6)
    shape = (None, None, channels)
    schema = {
        "png": tio.ImageFeature(channels, size=size, augment=augment, layout="HWC"),
        "raw": tio.RawFeature("uint8", shape, KEYS, size=size, augment=augment),
    }
    batch = tio.parse_examples([message_of(each) for each in images], schema)
    for raw, png in zip(batch["raw"], batch["png"], strict=True):
        assert torch.equal(raw, png)


def test_arrays_of_one_shape_become_one_tensor() -> None:
    pixels = [noise(20, 30, 3, seed=at) for at in range(4)]
    messages = [message_of(each) for each in pixels]
    schema = {
        "small": tio.RawFeature("uint8", [20, 30, 3], key="raw", size=(10, 15)),
        "raw": tio.RawFeature("uint8", [20, 30, 3]),
    }
    batch = tio.parse_examples(messages, schema)
    assert batch["small"].shape == (4, 10, 15, 3)
    assert np.array_equal(batch["raw"].numpy(), pixels)
    halved = np.stack(pixels).reshape(4, 10, 2, 15, 2, 3).mean(axis=(2, 4))
    assert np.abs(batch["small"].numpy() - halved)[:, 2:-2, 2:-2].mean() < 30  # not other images
    one = {"raw": tio.RawFeature("uint8", [None, 30, 3], size=(10, 15))}
    assert torch.equal(tio.parse_examples(messages, one)["raw"], batch["small"])


def test_images_of_a_sequence_get_one_crop() -> None:
    pixels = noise(20, 30, 3)
    element = tio.RawFeature("uint8", [20, 30, 3], size=(8, 8), augment=tio.RandomResizedCrop())
    schema = {"raw": tio.SequenceFeature(element)}
    batch = tio.parse_examples([tio.encode_example({"raw": [pixels.tobytes()] * 3})], schema)
    first, *others = batch["raw"][0]
    assert all(torch.equal(first, other) for other in others)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"raw": b"123"}, r"it has 3 bytes, its shape \[4, 5, 3\] of uint8 needs 60"),
        ({"height": 0, "raw": b""}, "the image has no pixels"),
        ({"height": -1}, "has a negative size"),
        ({"channel": 1}, r"its shape is \[4, 5, 1\], the schema wants"),
        ({"height": [4, 4]}, "cannot be the shapes of 1 array"),
        ({"height": 3, "raw": bytes(45)}, "is smaller than the crop of 4 x 4"),
    ],
)
@pytest.mark.parametrize("size", [None, (3, 3)])
def test_bad_images_are_errors_of_their_records(
    change: dict[str, Any], reason: str, size: Any
) -> None:
    good = {"raw": noise(4, 5, 3).tobytes(), "height": 4, "width": 5, "channel": 3}
    messages = [tio.encode_example(each) for each in (good, {**good, **change})]
    feature = tio.RawFeature(
        "uint8", (None, None, 3), KEYS, size=size, augment=tio.RandomCrop((4, 4))
    )
    with pytest.raises(DecodeError, match=reason) as caught:
        tio.parse_examples(messages, {"raw": feature})
    assert (caught.value.record, caught.value.feature) == (1, "raw")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"dtype": "int8"}, "need the dtype 'uint8'"),
        ({"shape": [4, 5]}, r"a shape \[height, width, 1 or 3\], got 'uint8' and \[4, 5\]"),
        ({"shape": [4, 5, 4]}, "a shape"),
        ({"shape": [4, 5, None]}, "a shape"),
        ({"compression": "zlib"}, "exclude compression"),
        ({"dequantize": (0, 1)}, "exclude compression, dequantize"),
        ({"fixed_length": 60}, "exclude compression, dequantize and fixed_length"),
        ({"size": (0, 4)}, "size must be"),
        ({"augment": 5}, "augment must be a function"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, Any], reason: str) -> None:
    given: dict[str, Any] = {"dtype": "uint8", "shape": [4, 5, 3], "size": (2, 2)}
    with pytest.raises(tio.SchemaError, match=reason):
        tio.RawFeature(**(given | arguments))


def test_forms_and_encoding() -> None:
    feature = tio.RawFeature("uint8", [4, 5, 3], size=(2, 2), augment=CROP)
    schema = tio.Schema({"raw": feature})
    assert tio.Schema.from_json(schema.to_json()) == schema
    assert "augment=RandomResizedCrop" in repr(feature)
    batch = tio.parse_examples([message_of(noise(4, 5, 3))], schema)
    with pytest.raises(TypeError, match="size or augment"):
        tio.encode_example(batch.samples()[0])
