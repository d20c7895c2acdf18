"""Random crops that several features of a record share: images and their masks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import torchrec_io as tio
from tests.support.images import Pixels, encoded, noise, oriented, smooth
from torchrec_io._images.random_crop import generator_of
from torchrec_io._parsing.record_random import RecordRandom
from torchrec_io.errors import DecodeError

GROUPED = tio.RandomResizedCrop(group="view")
SIZES = [(40 + number, 61 - number) for number in range(12)]


def mask_of(image: Pixels) -> Pixels:
    """Return a mask that shows which pixels of the image it belongs to."""
    return image[:, :, 0]


def records(kind: str = "PNG") -> list[bytes]:
    images = [noise(*size, seed=number) for number, size in enumerate(SIZES)]
    return [
        tio.encode_example({"image": encoded(image, kind), "mask": encoded(mask_of(image))})
        for image in images
    ]


def schema_of(image: dict[str, Any], mask: dict[str, Any], crop: Any = GROUPED) -> dict[str, Any]:
    return {
        "image": tio.ImageFeature(augment=crop, layout="HWC", **image),
        "mask": tio.ImageFeature(channels=1, augment=crop, layout="HWC", **mask),
    }


def flipped_at_random() -> list[bool]:
    return [
        GROUPED(*size, generator_of(RecordRandom().key(number, "view"))).flip
        for number, size in enumerate(SIZES)
    ]


@pytest.mark.parametrize(("decoder", "is_first"), [("auto", True), ("pillow", False)])
def test_an_image_and_its_mask_get_the_same_box_and_flip(decoder: Any, is_first: bool) -> None:
    schema = schema_of({"decoder": decoder}, {"decoder": decoder, "palette": "index"})
    batch = tio.parse_examples(records(), schema if is_first else dict([*schema.items()][::-1]))
    for image, mask in zip(batch["image"], batch["mask"], strict=True):
        assert torch.equal(image[:, :, 0], mask[:, :, 0])
    sizes = {tuple(image.shape) for image in batch["image"]}
    assert len(sizes) == len(SIZES)
    assert set(flipped_at_random()) == {True, False}


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_resized_pixels_are_those_of_pillow_for_the_box(kind: str) -> None:
    """They are what torchvision gives for its own box, which Pillow resizes."""
    masks = {"filter": "nearest", "size": (9, 7)}
    batch = tio.parse_examples(records(kind), schema_of({"size": (13, 11)}, masks))
    plain = tio.parse_examples(records(kind), {"image": tio.ImageFeature(layout="HWC")})["image"]
    for number, (height, width) in enumerate(SIZES):
        rng = generator_of(RecordRandom().key(number, "view"))
        top, left, rows, columns, flip = GROUPED(height, width, rng)
        box = left, top, left + columns, top + rows
        image = Image.fromarray(plain[number].numpy()).crop(box)
        smooth = np.asarray(image.resize((11, 13), Image.Resampling.BILINEAR)).astype(int)
        mask = Image.fromarray(mask_of(noise(height, width, seed=number))).crop(box)
        exact = np.asarray(mask.resize((7, 9), Image.Resampling.NEAREST))
        if flip:
            smooth, exact = smooth[:, ::-1], exact[:, ::-1]
        assert np.abs(batch["image"][number].numpy() - smooth).max() <= 1
        assert batch["mask"][number, :, :, 0].tolist() == exact.tolist()


@pytest.mark.parametrize("size", [None, (8, 8)])
def test_masks_of_another_size_get_the_same_part(size: Any) -> None:
    """The image has four times the pixels in each direction, so parts end at the same places."""
    image = np.arange(64 * 96, dtype=np.int64).reshape(64, 96)
    large = np.stack([image % 251, image // 251, image * 0], -1).astype(np.uint8)
    small = np.ascontiguousarray(large[::4, ::4])
    crop = tio.RandomResizedCrop((0.2, 0.8), group="view")
    record = tio.encode_example({"image": encoded(large), "mask": encoded(small)})
    options: dict[str, Any] = {"layout": "HWC", "augment": crop}
    whole = {"image": tio.ImageFeature(**options), "mask": tio.ImageFeature(**options)}
    batch = tio.parse_examples([record] * 20, whole)
    flips = []
    for number in range(20):
        rng = generator_of(RecordRandom().key(number, "view"))
        top, left, rows, columns, flip = crop(64, 96, rng)
        down, up = round(top / 4), round((top + rows) / 4)
        start, end = round(left / 4), round((left + columns) / 4)
        expected = small[down:up, start:end]
        found = batch["mask"][number].numpy()
        assert found.tolist() == (expected[:, ::-1] if flip else expected).tolist()
        flips.append(flip)
    assert set(flips) == {True, False}
    if size is not None:
        nearest = replace(whole["mask"], size=size, filter="nearest")
        found = tio.parse_examples([record] * 20, {**whole, "mask": nearest})["mask"].numpy()
        for number in range(20):
            part = Image.fromarray(batch["mask"][number].numpy())
            expected = np.asarray(part.resize(size, Image.Resampling.NEAREST))
            if not flips[number]:
                assert found[number].tolist() == expected.tolist()


def test_a_mask_of_one_pixel_gets_one_pixel() -> None:
    record = tio.encode_example({"image": encoded(noise(50, 70)), "mask": encoded(noise(1, 1, 1))})
    batch = tio.parse_examples([record] * 30, schema_of({}, {}))
    assert {tuple(mask.shape) for mask in batch["mask"]} == {(1, 1, 1)}


def test_rotation_and_fixed_crops_come_first() -> None:
    image, mask = noise(30, 50), noise(20, 10, 1)
    stored = encoded(Image.fromarray(image), "JPEG", exif=oriented(6))
    record = tio.encode_example({"image": stored, "mask": encoded(mask)})
    first = {"apply_exif_orientation": True, "crop": (5, 6, 40, 20)}
    crop = tio.RandomFlip(0.5, group="view")
    batch = tio.parse_examples([record] * 9, schema_of(first, {}, crop))
    assert {tuple(part.shape) for part in batch["image"]} == {(40, 20, 3)}
    assert {tuple(part.shape) for part in batch["mask"]} == {(20, 10, 1)}
    sides = [part[:, :, 0].numpy().tolist() for part in batch["mask"]]
    assert {str(side) for side in sides} == {str(mask.tolist()), str(mask[:, ::-1].tolist())}
    swapped = {"apply_exif_orientation": True}
    square = tio.RandomCrop((25, 15), 0, group="view")
    batch = tio.parse_examples([record] * 9, schema_of(swapped, {}, square))
    # The rotated image has 50 x 30 pixels: half of its rows, half of its columns.
    assert {tuple(part.shape[:2]) for part in batch["image"]} == {(25, 15)}
    assert {tuple(part.shape[:2]) for part in batch["mask"]} <= {
        (rows, columns) for rows in (9, 10, 11) for columns in (4, 5, 6)
    }


def test_formats_whose_size_pillow_knows_late() -> None:
    image = noise(40, 50)
    record = tio.encode_example(
        {"image": encoded(image, "TIFF"), "mask": encoded(mask_of(image), "GIF")}
    )
    batch = tio.parse_examples([record] * 5, schema_of({}, {"palette": "index"}))
    for part, mask in zip(batch["image"], batch["mask"], strict=True):
        assert torch.equal(part[:, :, 0], mask[:, :, 0])


def test_groups_are_different_and_named() -> None:
    """A group has its own random numbers; those of a group named like a feature are its own."""
    data = encoded(noise(40, 50))
    record = tio.encode_example({"left": data, "right": data})

    def parse(left: str | None, right: str | None) -> Any:
        groups = {"left": left, "right": right}
        crops = {name: tio.RandomResizedCrop(group=group) for name, group in groups.items()}
        images = {name: tio.ImageFeature(augment=crop, size=(8, 8)) for name, crop in crops.items()}
        return tio.parse_examples([record] * 5, images)

    apart, same = parse("left", "right"), parse("both", "both")
    assert not torch.equal(apart["left"], apart["right"])
    assert torch.equal(same["left"], same["right"])
    alone = tio.ImageFeature(augment=tio.RandomResizedCrop(), size=(8, 8))
    assert torch.equal(tio.parse_examples([record] * 5, {"left": alone})["left"], apart["left"])


@dataclass(frozen=True)
class Corner:
    """An ``augment`` function of a user."""

    group: str | None = None

    def __call__(self, height: int, width: int, rng: np.random.Generator) -> tio.Crop:
        rows, columns = (int(rng.integers(1, side + 1)) for side in (height, width))
        return tio.Crop(0, 0, rows, columns, flip=bool(rng.random() < 0.5))


def test_functions_of_users_take_part() -> None:
    batch = tio.parse_examples(records(), schema_of({}, {}, Corner("view")))
    for image, mask in zip(batch["image"], batch["mask"], strict=True):
        assert torch.equal(image[:, :, 0], mask[:, :, 0])


# ---- errors ----


@pytest.mark.parametrize(
    ("image", "mask"),
    [
        (tio.RandomResizedCrop(), tio.RandomResizedCrop()),
        (tio.RandomResizedCrop(group="view"), tio.RandomResizedCrop()),
        (Corner(), Corner()),
        (lambda *_: tio.Crop(0, 0, 1, 1), tio.RandomFlip(group="view")),
    ],
)
def test_random_crops_without_a_group_are_refused(image: Any, mask: Any) -> None:
    features = {"image": tio.ImageFeature(augment=image), "mask": tio.ImageFeature(augment=mask)}
    for parts in ({"features": features}, {"context": features}, {"features": {"a": features}}):
        with pytest.raises(tio.SchemaError, match=r"needs a group.*\(group='view'\) get") as caught:
            tio.Schema(**parts)
        assert caught.value.feature in ("image", "mask", "a/image", "a/mask")
    tio.Schema({"image": features["image"], "other": tio.ImageFeature()})


def test_a_group_has_one_function() -> None:
    with pytest.raises(tio.SchemaError, match="'view' must have equal augment functions") as caught:
        tio.Schema(
            {
                "image": tio.ImageFeature(augment=GROUPED),
                "mask": tio.ImageFeature(augment=tio.RandomResizedCrop((0.5, 1), group="view")),
            }
        )
    assert caught.value.feature == "mask"


def test_groups_are_names() -> None:
    groups: list[Any] = ["", 3, "\ud800", b"view"]
    for group in groups:
        with pytest.raises(tio.SchemaError, match="group must be the name of a group, got"):
            tio.RandomFlip(group=group)
    for crop in (tio.RandomResizedCrop, lambda **kw: tio.RandomCrop((2, 2), **kw)):
        with pytest.raises(tio.SchemaError, match="group must be the name of a group, got"):
            crop(group="")


@pytest.mark.parametrize("size", [None, (8, 8)])
def test_a_bad_image_is_named_if_a_mask_needs_its_size(size: Any) -> None:
    schema = schema_of(
        {"size": (8, 8)}, {"size": size, "filter": "nearest" if size else "bilinear"}
    )
    good = records()[0]
    bad = tio.encode_example({"image": b"no image", "mask": encoded(noise(4, 4, 1))})
    with pytest.raises(DecodeError, match="its format is not known") as caught:
        tio.parse_examples([good, bad], schema)
    assert caught.value.feature == "image"


def test_the_image_of_a_mask_has_the_limits_of_its_feature() -> None:
    schema = schema_of({"max_pixels": 99}, {"max_pixels": 99_999})
    schema = {"mask": schema["mask"], "image": schema["image"]}
    with pytest.raises(DecodeError, match="more than max_pixels=99"):
        tio.parse_examples(records()[:1], schema)


# ---- sequences ----

CROP = tio.RandomResizedCrop((0.1, 0.5), flip=0.5)


def frames_of(*records: list[bytes]) -> list[bytes]:
    return [tio.encode_example({"frames": each}, kinds={"frames": "string"}) for each in records]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF"])
@pytest.mark.parametrize("options", [{"size": (8, 9)}, {}])
def test_all_images_of_a_sequence_get_one_crop(kind: str, options: dict[str, Any]) -> None:
    stored = [[encoded(smooth(40, 50), kind)] * count for count in (3, 1, 0, 2)]
    spec = tio.SequenceFeature(tio.ImageFeature(augment=CROP, **options), key="frames")
    column = tio.parse_examples(frames_of(*stored), {"frames": spec})["frames"]
    records = [torch.as_tensor(each) for each in (column if options else list(column))]
    assert [len(each) for each in records] == [3, 1, 0, 2]
    assert all(torch.equal(image, each[0]) for each in records for image in each)
    assert not torch.equal(records[0][0], records[3][0])
    single = {"frames": tio.ImageFeature(augment=CROP, **options)}
    firsts = tio.parse_examples(frames_of(stored[0][:1], stored[1]), single)["frames"]
    assert torch.equal(records[0][0], firsts[0])


def test_images_of_a_sequence_of_other_sizes_get_the_crop_of_the_first_one() -> None:
    """The same picture at twice the size shows the same part."""
    small = np.zeros((30, 40, 3), np.uint8)
    small[..., 0], small[..., 1] = np.arange(30)[:, np.newaxis] * 8, np.arange(40) * 6
    large = small.repeat(2, axis=0).repeat(2, axis=1)
    frames = [encoded(small), encoded(large)]
    spec = tio.SequenceFeature(tio.ImageFeature(size=(10, 10), augment=CROP), key="frames")
    [first, second] = tio.parse_examples(frames_of(frames), {"frames": spec})["frames"][0]
    assert (first.int() - second.int()).abs().max() <= 8


def test_a_sequence_and_an_image_of_one_group() -> None:
    crop = tio.RandomResizedCrop((0.1, 0.5), group="view")
    image = tio.ImageFeature(size=(8, 8), augment=crop)
    picture = encoded(smooth(40, 50), "JPEG")
    message = tio.encode_example({"image": [picture], "frames": [picture] * 3})
    for schema in (
        {"image": image, "frames": tio.SequenceFeature(image)},
        {"frames": tio.SequenceFeature(image), "image": image},
    ):
        batch = tio.parse_examples([message], schema)
        for frame in batch["frames"][0]:
            assert torch.equal(frame, batch["image"][0])
    with pytest.raises(tio.SchemaError, match="needs a group"):
        tio.Schema(
            {
                "image": tio.ImageFeature(augment=tio.RandomFlip()),
                "frames": tio.SequenceFeature(tio.ImageFeature(augment=tio.RandomFlip())),
            }
        )
