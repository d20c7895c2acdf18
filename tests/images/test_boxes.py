"""Boxes and keypoints, which follow the crop, resize and flip of an image."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.images import encoded, oriented
from tests.support.tfrecord import write_tfrecord
from torchrec_io.errors import DecodeError, SchemaError

CORNERS = ("ymin", "xmin", "ymax", "xmax")
Floats = list[float]


class FixedCrop(NamedTuple):
    """An augment function that always chooses the same part."""

    top: int
    left: int
    height: int
    width: int
    flip: bool
    group: str = "view"

    def __call__(self, height: int, width: int, rng: Any) -> tio.Crop:
        return tio.Crop(*self[:5])


def record_of(size: tuple[int, int], **lists: Floats) -> bytes:
    image = np.zeros((*size, 3), np.uint8)
    stored = {name: np.array(values, np.float32) for name, values in lists.items()}
    return tio.encode_example({"image": encoded(image), **stored})


def plain_boxes(*boxes: Floats) -> dict[str, Floats]:
    """Return the four stored lists of boxes."""
    return {name: [box[at] for box in boxes] for at, name in enumerate(CORNERS)}


def read(records: list[bytes], spec: Any, **image: Any) -> tuple[Any, Any]:
    """Return the places and the mask of records, as lists."""
    augment = image.pop("augment", tio.RandomFlip(0, group="view"))
    schema = {"image": tio.ImageFeature(augment=augment, **image), "places": spec}
    batch = tio.parse_examples(records, schema)
    return batch["places"].tolist(), batch.valid["places"].tolist()


# ---- an independent model: one place at a time, as torchvision.transforms.v2 ----


class Picture(NamedTuple):
    """How a picture is made of an image: crop, resize, center crop, flip and padding."""

    crop: FixedCrop
    resized: tuple[float, float]
    inner: tuple[float, float, float, float]  # top, left, height and width in what was resized
    pad: tuple[int, int]
    value: tuple[int, int]


def picture_of(
    crop: FixedCrop, size: tuple[int, int] | None, resize: str, short: int | None
) -> Picture:
    height, width = crop.height, crop.width
    if size is None:
        whole = (0.0, 0.0, float(height), float(width))
        return Picture(crop, (height, width), whole, (0, 0), (height, width))
    rows, columns = size
    if resize == "stretch":
        return Picture(crop, size, (0, 0, rows, columns), (0, 0), size)
    if short is not None:  # torchvision's Resize(short), then CenterCrop(size)
        large = max(1, int(short * max(height, width) / min(height, width)))
        resized = (short, large) if height <= width else (large, short)
        top, left = round((resized[0] - rows) / 2), round((resized[1] - columns) / 2)
        return Picture(crop, resized, (top, left, rows, columns), (0, 0), size)
    ratios = rows / height, columns / width
    if resize == "cover":
        ratio = max(ratios)
        resized_to = height * ratio, width * ratio
        inner = (resized_to[0] - rows) / 2, (resized_to[1] - columns) / 2, rows, columns
        return Picture(crop, resized_to, inner, (0, 0), size)
    # As ImageOps.pad of Pillow.
    if width / height > columns / rows:
        inner_size = max(1, round(height / width * columns)), columns
    else:
        inner_size = rows, max(1, round(width / height * rows))
    pad = round((rows - inner_size[0]) * 0.5), round((columns - inner_size[1]) * 0.5)
    return Picture(crop, inner_size, (0, 0, *inner_size), pad, size)


def seen(point: Floats, picture: Picture) -> tuple[float, float]:
    """Crop and resize a point in pixels: crop_keypoints, resize_keypoints, center_crop."""
    y, x = point
    y = (y - picture.crop.top) * (picture.resized[0] / picture.crop.height) - picture.inner[0]
    x = (x - picture.crop.left) * (picture.resized[1] / picture.crop.width) - picture.inner[1]
    return y, x


def expected_box(box: Floats, picture: Picture) -> tuple[Floats, bool]:
    """Return a box ``yxyx`` in pixels, and whether one pixel of it is left."""
    down, along = picture.pad
    (top, left), (bottom, right) = seen(box[:2], picture), seen(box[2:], picture)
    height, width = picture.inner[2:]
    top, bottom = (min(max(each, 0.0), height) for each in (top, bottom))
    left, right = (min(max(each, 0.0), width) for each in (left, right))
    if picture.crop.flip:
        left, right = width - right, width - left
    is_valid = bottom - top >= 1 and right - left >= 1
    return [top + down, left + along, bottom + down, right + along], is_valid


def expected_point(point: Floats, picture: Picture) -> tuple[Floats, bool]:
    y, x = seen(point, picture)
    height, width = picture.inner[2:]
    if picture.crop.flip:
        x = width - 1 - x
    return [y + picture.pad[0], x + picture.pad[1]], 0 <= y < height and 0 <= x < width


def as_format(box: Floats, name: str) -> Floats:
    """Return a box ``yxyx`` in another format."""
    y0, x0, y1, x1 = box
    return {
        "yxyx": [y0, x0, y1, x1],
        "xyxy": [x0, y0, x1, y1],
        "xywh": [x0, y0, x1 - x0, y1 - y0],
        "cxcywh": [(x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0],
    }[name]


def scaled(box: Floats, size: tuple[float, float], name: str) -> Floats:
    """Return numbers of a format divided by a height and width."""
    height, width = size
    units = (height, width) if name.startswith("y") else (width, height)
    return [number / units[at % 2] for at, number in enumerate(box)]


@st.composite
def crops(draw: st.DrawFn) -> tuple[tuple[int, int], FixedCrop]:
    """Draw the size of an image, and a part of it."""
    height, width = draw(st.integers(1, 30)), draw(st.integers(1, 30))
    top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    rows, columns = draw(st.integers(1, height - top)), draw(st.integers(1, width - left))
    return (height, width), FixedCrop(top, left, rows, columns, draw(st.booleans()))


# Quarters of pixels, also outside of the image, and in the wrong order.
numbers = st.integers(-20, 160).map(lambda number: number / 4)
sizes = st.tuples(st.integers(1, 20), st.integers(1, 20))
fits = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {"size": sizes, "resize": st.sampled_from(["stretch", "cover", "contain"])}
    ),
    st.builds(
        lambda size, more: {"size": size, "resize": "cover", "short_side": max(size) + more},
        sizes,
        st.integers(0, 3),
    ),
)


def picture_for(crop: FixedCrop, options: dict[str, Any]) -> Picture:
    resize = options.get("resize", "stretch")
    return picture_of(crop, options.get("size"), resize, options.get("short_side"))


@given(
    crops(),
    st.lists(st.lists(numbers, min_size=4, max_size=4), max_size=4),
    fits,
    st.sampled_from(["yxyx", "xyxy", "xywh", "cxcywh"]),
    st.tuples(st.booleans(), st.booleans()),
)
def test_boxes_are_those_of_torchvision(
    part: tuple[tuple[int, int], FixedCrop],
    boxes: list[Floats],
    options: dict[str, Any],
    name: Any,
    flags: tuple[bool, bool],
) -> None:
    (image_size, crop), (normalized, together) = part, flags
    picture = picture_for(crop, options)
    stored = [as_format(box, name) for box in boxes]
    if normalized:
        stored = [scaled(box, image_size, name) for box in stored]
    if together:
        lists = {"places": [number for box in stored for number in box]}
    else:
        lists = plain_boxes(*stored)
    spec = tio.BoxFeature(
        None if together else CORNERS, group="view", format=name, normalized=normalized
    )
    [[found], [valid]] = read([record_of(image_size, **lists)], spec, augment=crop, **options)
    expected = [expected_box(box, picture) for box in boxes]
    wanted = [as_format(box, name) for box, _ in expected]
    if normalized:
        wanted = [scaled(box, picture.value, name) for box in wanted]
    tolerance = 1e-4
    assert np.allclose(np.reshape(found, (-1, 4)), np.reshape(wanted, (-1, 4)), 0, tolerance)
    for (box, is_valid), flag in zip(expected, valid, strict=True):
        sides = box[2] - box[0], box[3] - box[1]
        if min(abs(side - 1) for side in sides) > tolerance:  # not rounded to either side
            assert flag == is_valid


@given(
    crops(),
    st.lists(st.lists(numbers, min_size=2, max_size=2), max_size=4),
    fits,
    st.sampled_from(["yx", "xy"]),
    st.booleans(),
)
def test_keypoints_are_those_of_torchvision(
    part: tuple[tuple[int, int], FixedCrop],
    points: list[Floats],
    options: dict[str, Any],
    name: Any,
    normalized: bool,
) -> None:
    image_size, crop = part
    picture = picture_for(crop, options)
    stored = [point[:: 1 if name == "yx" else -1] for point in points]
    if normalized:
        stored = [scaled(point, image_size, name) for point in stored]
    lists = {"a": [point[0] for point in stored], "b": [point[1] for point in stored]}
    spec = tio.KeypointFeature(("a", "b"), group="view", format=name, normalized=normalized)
    [[found], [valid]] = read([record_of(image_size, **lists)], spec, augment=crop, **options)
    expected = [expected_point(point, picture) for point in points]
    wanted = [point[:: 1 if name == "yx" else -1] for point, _ in expected]
    if normalized:
        wanted = [scaled(point, picture.value, name) for point in wanted]
    assert np.allclose(np.reshape(found, (-1, 2)), np.reshape(wanted, (-1, 2)), 0, 1e-4)
    ends = [[pad, pad + size] for pad, size in zip(picture.pad, picture.inner[2:], strict=True)]
    for (point, is_inside), flag in zip(expected, valid, strict=True):
        if np.abs(np.subtract(ends, np.reshape(point, (2, 1)))).min() > 1e-4:
            assert flag == is_inside


# ---- pictures ----

PAINTED = [(4, 6, 20, 30), (10, 40, 31, 58), (33, 3, 39, 21)]
COLORS = (80, 160, 240)


def painted_record(number: int = 0) -> bytes:
    """Return an image with painted rectangles, its mask and its boxes."""
    mask = np.zeros((40, 60), np.uint8)
    for color, (top, left, bottom, right) in zip(COLORS, PAINTED, strict=True):
        mask[top:bottom, left:right] = color
    image = np.repeat(mask[:, :, np.newaxis], 3, 2)
    fractions = [[y / 40 if at % 2 == 0 else y / 60 for at, y in enumerate(box)] for box in PAINTED]
    lists = {name: np.array(v, np.float32) for name, v in plain_boxes(*fractions).items()}
    return tio.encode_example(
        {"id": number, "image": encoded(image), "mask": encoded(mask), **lists}
    )


CROP = tio.RandomResizedCrop((0.3, 1.0), group="view")
SCHEMA: dict[str, Any] = {
    "image": tio.ImageFeature(size=(80, 90), augment=CROP),
    "mask": tio.ImageFeature(1, size=(80, 90), augment=CROP, filter="nearest", palette="index"),
    "boxes": tio.BoxFeature(CORNERS, group="view"),
    "points": tio.KeypointFeature(("ymin", "xmin"), group="view"),
    "id": tio.FixedLenFeature([], "int64"),
}


@pytest.mark.parametrize("resize", ["stretch", "cover", "contain"])
def test_boxes_surround_what_is_painted(resize: Any) -> None:
    schema = {
        "image": replace(SCHEMA["image"], filter="nearest", resize=resize),
        "mask": replace(SCHEMA["mask"], resize=resize),
        "boxes": SCHEMA["boxes"],
    }
    batch = tio.parse_examples([painted_record()] * 60, schema)
    flags = []
    for picture, mask, boxes, valid in zip(
        batch["image"], batch["mask"], batch["boxes"], batch.valid["boxes"], strict=True
    ):
        for color, box, is_valid in zip(COLORS, boxes, valid, strict=True):
            for pixels in (picture[0], mask[0]):
                rows, columns = torch.nonzero(pixels == color, as_tuple=True)
                if len(rows) and is_valid:
                    found = [rows.min(), columns.min(), rows.max() + 1, columns.max() + 1]
                    wanted = (box * torch.tensor([80, 90, 80, 90])).tolist()
                    assert np.abs(np.subtract([int(each) for each in found], wanted)).max() <= 1
                assert not is_valid or len(rows)
                assert is_valid or len(rows) <= 90  # at most a line at the edge
            flags.append(bool(is_valid))
    assert {True, False} == set(flags)


def test_rotation_and_a_fixed_crop_come_first() -> None:
    image = np.zeros((20, 40, 3), np.uint8)
    stored = encoded(image, "JPEG", exif=oriented(6))  # 40 x 20 after its rotation
    places = np.array([10.0, 5, 20, 15], np.float32)
    record = tio.encode_example({"image": stored, "places": places})
    spec = tio.BoxFeature(group="view", normalized=False)
    options: dict[str, Any] = {"apply_exif_orientation": True, "crop": (4, 2, 30, 16)}
    flip = tio.RandomFlip(1, group="view")
    [[found], _] = read([record], spec, augment=flip, size=(15, 32), **options)
    assert found == [[3, 6, 8, 26]]


def test_padded_images_have_their_own_size() -> None:
    records = [record_of((10, 20), places=[0.5] * 4), record_of((30, 8), places=[0.25] * 4)]
    spec = tio.BoxFeature(group="view")
    found, _ = read(records, spec, mixed="pad")
    assert found == [[[0.5] * 4], [[0.25] * 4]]


# ---- values that are not boxes in the image ----


def test_boxes_follow_the_first_image_of_any_kind() -> None:
    """Pixels and sequences are images, too; another image of the group may have another size."""
    pixels = np.zeros((40, 20, 3), np.uint8)
    frames = [encoded(pixels)] * 2
    augment: Any = FixedCrop(0, 0, 20, 20, flip=False)
    record = tio.encode_example(
        {"raw": pixels.tobytes(), "frames": frames, "image": frames[0], "boxes": [10.0, 5, 20, 10]}
    )
    raw = tio.RawFeature("uint8", [40, 20, 3], size=(10, 10), augment=augment)
    sequence = tio.SequenceFeature(tio.ImageFeature(size=(10, 10), augment=augment))
    image = tio.ImageFeature(size=(99, 99), augment=augment)
    for first in ({"raw": raw}, {"frames": sequence}):
        for normalized, expected in ((False, [5, 2.5, 10, 5]), (True, [1, 1, 1, 1])):
            boxes = tio.BoxFeature(group="view", normalized=normalized)
            schema = tio.Schema({**first, "image": image, "boxes": boxes})
            assert tio.parse_example(record, schema)["boxes"].tolist() == [expected]


def test_without_an_image_of_the_sequence_no_box_is_valid() -> None:
    kinds: Any = {"frames": "string"}
    record = tio.encode_example({"frames": [], "boxes": [0.0, 0, 1, 1]}, kinds=kinds)
    augment = tio.RandomFlip(group="view")
    frames = tio.SequenceFeature(tio.ImageFeature(size=(4, 4), augment=augment))
    batch = tio.parse_examples([record], {"frames": frames, "boxes": tio.BoxFeature(group="view")})
    assert batch.valid["boxes"].tolist() == [[False]]


def test_boxes_that_are_not_valid_keep_their_rows() -> None:
    nan, inf = math.nan, math.inf
    boxes: list[Floats] = [
        [0.1, 0.1, 0.5, 0.5],
        [0.5, 0.1, 0.1, 0.5],  # in the wrong order
        [0.1, nan, 0.5, 0.5],
        [-inf, -3.0, inf, 3.0],
        [1.5, 1.5, 2.0, 2.0],
        [0.1, 0.1, 0.1999, 0.5],  # less than a pixel high
    ]
    record = record_of((10, 10), **plain_boxes(*boxes))
    [[found], [valid]] = read([record], tio.BoxFeature(CORNERS, group="view"))
    expected = [[*box] for box in np.array(boxes, np.float32).clip(0, 1).tolist()]
    assert np.array_equal(found, expected, equal_nan=True)
    assert valid == [True, False, False, True, False, False]
    spec = tio.BoxFeature(CORNERS, group="view", min_size=0.5)
    assert read([record], spec)[1] == [[True, False, False, True, False, True]]


def test_points_out_of_view_keep_their_places() -> None:
    record = record_of((10, 10), y=[0.0, 9.5, 10.0, -1.0, math.nan], x=[0.0, 2.0, 1.0, 3.0, 4.0])
    spec = tio.KeypointFeature(("y", "x"), group="view", normalized=False)
    [[found], [valid]] = read([record], spec)
    expected: list[Floats] = [[0, 0], [9.5, 2], [10, 1], [-1, 3], [math.nan, 4]]
    assert np.array_equal(found, expected, equal_nan=True)
    assert valid == [True, True, False, False, False]


def test_without_a_group_values_are_as_they_are_stored() -> None:
    boxes = [[0.5, 7.0, -3.0, math.inf], [1.0, 2.0, 3.0, 4.0]]
    records = [record_of((4, 4), **plain_boxes(*boxes)), record_of((4, 4))]
    schema = {
        "boxes": tio.BoxFeature(CORNERS, format="cxcywh"),
        "points": tio.KeypointFeature(("xmin", "ymin"), format="xy"),
    }
    batch = tio.parse_examples(records, schema)
    assert batch["boxes"].tolist() == [boxes, []]
    assert batch["points"].tolist() == [[[7.0, 0.5], [2.0, 1.0]], []]
    assert batch["boxes"].values.dtype == torch.float32
    assert batch["boxes"].values.shape == (2, 4)
    assert batch.valid == {}


def test_records_without_boxes_have_none() -> None:
    spec = tio.BoxFeature(CORNERS, group="view")
    assert read([record_of((4, 4)), record_of((5, 5))], spec) == ([[], []], [[], []])


@pytest.mark.parametrize(
    ("keys", "lists", "reason"),
    [
        (
            CORNERS,
            {**plain_boxes([0.0] * 4, [1.0] * 4), "ymax": [0.5]},
            "it has 1 value, but 'ymin' has 2, in the stored feature 'ymax'",
        ),
        (CORNERS, {"ymin": [0.5]}, "it has 0 values, but 'ymin' has 1"),
        (None, {"boxes": [0.0] * 6}, "it has 6 values, which must be a multiple of 4"),
    ],
)
def test_lists_that_are_no_boxes_fail(keys: Any, lists: Any, reason: str) -> None:
    good = record_of((4, 4), **plain_boxes([0.0] * 4), boxes=[0.0] * 4)
    schema = {"boxes": tio.BoxFeature(keys)}
    with pytest.raises(DecodeError) as caught:
        tio.parse_examples([good, record_of((4, 4), **lists), good], schema)
    assert (caught.value.record, caught.value.feature) == (1, "boxes")
    assert caught.value.reason.startswith(reason)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tio.BoxFeature(("a", "b")), "of 4 different features"),
        (lambda: tio.BoxFeature(("a", "b", "c", "a")), "of 4 different features"),
        (lambda: tio.BoxFeature(("a", "b", "c", "")), "keys must be the name of a feature"),
        (lambda: tio.BoxFeature(cast(Any, 5)), "keys must be the name of a feature"),
        (lambda: tio.BoxFeature(format=cast(Any, "yx")), "format must be"),
        (lambda: tio.BoxFeature(min_size=-1), "min_size must be a non-negative number"),
        (lambda: tio.BoxFeature(group=""), "group must be the name of a group"),
        (lambda: tio.KeypointFeature(CORNERS), "of 2 different features"),
        (
            lambda: tio.Schema({"image": SCHEMA["image"], "x": tio.BoxFeature(group="other")}),
            "no image has the group 'other'.*are \\['view'\\]",
        ),
        (
            lambda: tio.Schema({**SCHEMA, "valid": tio.VarLenFeature("int64")}),
            "a dict 'valid'",
        ),
    ],
)
def test_wrong_arguments_are_refused(make: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        make()


# ---- batches, loaders and files ----


def plain(batch: Any) -> list[Any]:
    return [
        batch["id"].tolist(),
        *(batch[name].tolist() for name in ("boxes", "points")),
        *(batch.valid[name].tolist() for name in ("boxes", "points")),
    ]


def test_the_mask_stays_with_its_batch() -> None:
    batch = tio.parse_examples([painted_record(number) for number in range(5)], SCHEMA)
    expected = plain(batch)
    for same in (
        pickle.loads(pickle.dumps(batch)),
        tio.collate(batch.samples()),
        batch.to("cpu", torch.float64),
        pickle.loads(pickle.dumps(tio.collate(batch.samples()[:]))),
    ):
        assert plain(same)[-2:] == expected[-2:]
        assert same.valid["boxes"].values.dtype == torch.bool
    assert plain(batch[2:4]) == [part[2:4] for part in expected]
    sample = batch.samples()[3]
    assert sample["valid"]["boxes"].tolist() == expected[3][3]
    assert pickle.loads(pickle.dumps(sample)) == sample
    padded = tio.pad_collate(batch.samples())
    assert padded.valid["boxes"].shape == (5, 3)


def test_steps_keep_the_masks_of_boxes(tmp_path: Path) -> None:
    boxes = {name: np.array([0.5], np.float32) for name in CORNERS[:2]}
    boxes |= {name: np.array([1], np.float32) for name in CORNERS[2:]}
    image = encoded(np.zeros((8, 8, 3), np.uint8))
    record = tio.encode_example({"steps/x": [1, 2], "image": image, **boxes})
    schema: dict[str, Any] = {
        "image": tio.ImageFeature(augment=tio.RandomFlip(group="view")),
        "steps": {"x": tio.VarLenFeature("int64")},
        "boxes": tio.BoxFeature(CORNERS, group="view"),
    }
    path = write_tfrecord(tmp_path / "a.tfrecord", [record])
    steps = tio.TFRecordDataset(path, schema, batch_size=2).steps([0, 1], outside="repeat")
    [batch] = steps
    assert batch.valid["boxes"].tolist() == [[True], [True]]
    assert batch.valid["steps/x"].tolist() == [[True, True], [True, False]]


def test_boxes_of_a_dict_have_their_flat_name() -> None:
    schema = {"image": SCHEMA["image"], "objects": {"bbox": tio.BoxFeature("ymin", group="view")}}
    record = record_of((4, 4), ymin=[0.0, 0.0, 1.0, 1.0])
    batch = tio.parse_examples([record], schema)
    assert batch.valid["objects/bbox"].tolist() == [[True]]
    assert batch["objects"]["bbox"].values.shape == (1, 4)


def test_boxes_without_a_group_are_encoded_again() -> None:
    schema = tio.Schema(
        {"boxes": tio.BoxFeature(CORNERS), "points": tio.KeypointFeature(format="xy")}
    )
    lists = {**plain_boxes([0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]), "points": [1.0, 2.0]}
    for stored in (lists, {**plain_boxes(), "points": []}):
        floats = {name: np.array(values, np.float32) for name, values in stored.items()}
        record = tio.encode_example(floats)
        sample = tio.parse_example(record, schema)
        assert tio.encode_example(sample) == record
        assert tio.encode_example(dict(sample), schema) == record
    with pytest.raises(ValueError, match="must have the shape"):
        tio.encode_example({"boxes": torch.zeros(3)}, schema)


def test_boxes_that_follow_an_image_are_not_encoded() -> None:
    schema = tio.Schema(SCHEMA)
    sample = tio.parse_example(painted_record(), schema)
    with pytest.raises(TypeError, match="with a group follows the crop of an image"):
        tio.encode_example({"boxes": sample["boxes"]}, schema)
    stored = {"boxes": [[0.0, 0.25, 0.5, 1.0]], "valid": sample["valid"]}
    expected = {name: [value] for name, value in zip(CORNERS, stored["boxes"][0], strict=True)}
    assert tio.encode_example(stored, schema) == tio.encode_example(expected)
