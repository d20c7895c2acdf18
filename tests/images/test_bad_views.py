"""Faults of records whose image has two views and boxes, and of images stored as their pixels.

Each fault is an error of its record that names the file, record, feature and reason. The others
are read as if there were none.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchrec_io as tio
from tests.support.images import encoded, noise, smooth
from tests.support.tfrecord import frame, write_tfrecord

CROP = tio.RandomResizedCrop((0.2, 1.0), group="view")
OTHER = tio.RandomResizedCrop((0.2, 1.0), group="other")
SCHEMA = tio.Schema(
    {
        "id": tio.FixedLenFeature([], "int64"),
        "image": tio.ImageFeature(
            size=(12, 10), augment=CROP, jitter=tio.ColorJitter(0.4, hue=0.1)
        ),
        "second": tio.ImageFeature(key="image", size=(7, 9), augment=OTHER, dtype="float32"),
        "boxes": tio.BoxFeature(("ymin", "xmin", "ymax", "xmax"), group="view"),
        "points": tio.KeypointFeature(("ymin", "xmin"), group="other"),
        "raw": tio.RawFeature(
            "uint8", (None, None, 3), ["height", "width", "channel"], size=(6, 5), augment=CROP
        ),
    }
)
JPEG = encoded(smooth(48, 64), "JPEG", quality=90)
PNG = encoded(smooth(48, 64))
HALF = len(JPEG) // 2
RAW = noise(11, 13).tobytes()

# What is stored instead, the feature that the error names, and a part of the reason.
FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "a truncated JPEG": ({"image": JPEG[:HALF]}, "image", "it is truncated"),
    "a JPEG without its rows": (
        {"image": JPEG[:HALF] + b"\xff\xd9"},
        "image",
        "premature end of data segment",
    ),
    "a corrupt JPEG": (
        {"image": JPEG[:HALF] + b"\xff\x00" * 20 + JPEG[HALF + 40 :]},
        "image",
        "Corrupt JPEG data",
    ),
    "a truncated PNG": ({"image": PNG[: len(PNG) // 2]}, "image", "it is truncated"),
    "a corrupt PNG": (
        {"image": PNG[:-30] + bytes([PNG[-30] ^ 1]) + PNG[-29:]},
        "image",
        "does not match its checksum",
    ),
    "no image": ({"image": b""}, "image", "its format is not known"),
    "two images": ({"image": [JPEG, JPEG]}, "image", "2"),
    "coordinates of one box": ({"ymin": [0.1]}, "boxes", "1"),
    "boxes of another kind": ({"ymax": [1, 2]}, "boxes", "int64"),
    "too few pixels": ({"raw": RAW[:-1]}, "raw", "it has 428 bytes"),
    "too many pixels": ({"raw": RAW + b"\0"}, "raw", "it has 430 bytes"),
    "another height": ({"height": 10}, "raw", "it has 429 bytes"),
    "a negative width": ({"width": -13}, "raw", "has a negative size"),
    "a shape beyond all memory": ({"height": 1 << 62, "width": 1 << 62}, "raw", "shape"),
    "channels of more than 32 bits": ({"channel": (1 << 32) + 3}, "raw", "the schema wants"),
    "no pixels": ({"height": 0, "raw": b""}, "raw", "the image has no pixels"),
}


def record(number: int, **changes: Any) -> bytes:
    corners = np.random.default_rng(number).random((4, 2), np.float32)
    lists = dict(zip(("ymin", "xmin", "ymax", "xmax"), corners, strict=True))
    image = PNG if number % 4 == 0 else JPEG
    shape = {"height": 11, "width": 13, "channel": 3}
    return tio.encode_example(
        {"id": number, "image": image, "raw": RAW, **shape, **lists, **changes}
    )


def rows_of(items: list[Any]) -> dict[int, Any]:
    """Return the values of each record, with the masks of its places."""
    found = {}
    for sample in itertools.chain.from_iterable(
        item.samples() if isinstance(item, tio.Batch) else [item] for item in items
    ):
        values = {name: sample[name].tolist() for name in SCHEMA}
        masks = {name: mask.tolist() for name, mask in sample["valid"].items()}
        found[values["id"]] = (values, masks)
    return found


@pytest.mark.parametrize("batch_size", [None, 3, 40])
def test_each_fault_is_an_error_of_its_record(batch_size: Any, tmp_path: Path) -> None:
    changes = [change for change, _, _ in FAULTS.values()]
    good = [record(number) for number in range(2 * len(FAULTS) + 1)]
    stored = [
        record(number, **changes[number // 2]) if number % 2 else data
        for number, data in enumerate(good)
    ]
    options: dict[str, Any] = {"batch_size": batch_size, "seed": 4}
    expected = rows_of(
        list(tio.TFRecordDataset(write_tfrecord(tmp_path / "good", good), SCHEMA, **options))
    )
    path = str(write_tfrecord(tmp_path / "bad", stored))
    errors: list[Any] = []
    found = rows_of(list(tio.TFRecordDataset(path, SCHEMA, on_error=errors.append, **options)))
    assert found == {number: row for number, row in expected.items() if number % 2 == 0}
    starts = [0, *itertools.accumulate(len(frame(data)) for data in stored)]
    numbers = list(range(1, len(stored), 2))
    assert [error.record for error in errors] == numbers
    for number, error, (name, fault) in zip(numbers, errors, FAULTS.items(), strict=True):
        _, feature, reason = fault
        assert type(error) is tio.DecodeError, name
        assert (error.path, error.feature) == (path, feature), name
        assert error.offset == starts[number], name
        assert reason in error.reason, name


@pytest.mark.parametrize("name", FAULTS)
def test_the_first_fault_of_a_batch_is_raised(name: str) -> None:
    change, feature, reason = FAULTS[name]
    messages = [record(0), record(1), record(2, **change), record(3, image=b"")]
    with pytest.raises(tio.DecodeError) as caught:
        tio.parse_examples(messages, SCHEMA)
    assert reason in caught.value.reason
    assert (caught.value.record, caught.value.feature) == (2, feature)
