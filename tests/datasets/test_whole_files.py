"""WholeFileDataset: files as bytes, as images and as values of other features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torchrec_io as tio
from tests.support.images import encoded, smooth, write_images

CONTENT = {"content": tio.FixedLenFeature([], "string")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create three images in two folders, and other files."""
    for number, name in enumerate(("cat/a.png", "dog/b.jpg", "dog/c.png")):
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = "JPEG" if name.endswith("jpg") else "PNG"
        path.write_bytes(encoded(smooth(20 + number, 30, seed=number), kind))
    (tmp_path / "images" / "dog" / "notes.txt").write_bytes(b"not an image")
    return tmp_path / "images"


def test_files_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"two\n")
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / ".hidden").write_bytes(b"three")
    dataset = tio.WholeFileDataset(tmp_path, with_key=True)
    assert list(dataset) == [(f"{tmp_path}/a", b""), (f"{tmp_path}/b", b"two\n")]
    assert list(tio.WholeFileDataset(tmp_path, len)) == [0, 4]


def test_contents_as_a_column(tmp_path: Path) -> None:
    contents = [bytes([number]) * size for number, size in enumerate((0, 1, 127, 128, 20_000))]
    for number, content in enumerate(contents):
        (tmp_path / f"{number}").write_bytes(content)
    [batch] = list(tio.WholeFileDataset(tmp_path, CONTENT, batch_size=9))
    assert batch["content"].tolist() == contents


@pytest.mark.parametrize(
    "feature",
    [
        tio.ImageFeature(size=(16, 16)),
        tio.ImageFeature(size=(16, 16), augment=tio.RandomResizedCrop()),
        tio.ImageFeature(),
    ],
    ids=["resized", "augmented", "listed"],
)
def test_images_are_those_of_tfrecord_files(folder: Path, feature: tio.ImageFeature) -> None:
    """Random augmentations are equal too."""
    pattern = str(folder / "**" / "*.[jp]*g")
    whole = tio.WholeFileDataset(pattern, {"image": feature}, batch_size=3, seed=5, epochs=2)
    files = [path.read_bytes() for path in sorted(folder.rglob("*.[jp]*g"))]
    path = write_images(folder / "x.tfrecord", files)
    stored = tio.TFRecordDataset(path, {"image": feature}, batch_size=3, seed=5, epochs=2)
    images = [image for batch in whole for image in batch["image"]]
    assert len(images) == 6
    assert all(map(torch.equal, images, (image for batch in stored for image in batch["image"])))


def test_invalid_images_are_reported(folder: Path) -> None:
    paths = sorted(folder.rglob("*.*"))
    image = {"image": tio.ImageFeature(size=(8, 8))}
    found: list[tio.TorchRecIOError] = []
    dataset = tio.WholeFileDataset(paths, image, batch_size=4, with_key=True, on_error=found.append)
    [(keys, batch)] = list(dataset)
    assert keys == [str(path) for path in paths if path.suffix != ".txt"]
    assert batch["image"].shape == (3, 8, 8, 3) or batch["image"].shape == (3, 3, 8, 8)
    [error] = found
    assert isinstance(error, tio.DecodeError)
    notes = str(folder / "dog" / "notes.txt")
    assert (error.path, error.record, error.offset, error.feature) == (notes, 0, 0, "image")
    assert "at byte" not in error.reason


def test_raw_arrays_and_serialized_tensors(tmp_path: Path) -> None:
    values = np.array([[1.5, -2.0]], "<f4")
    (tmp_path / "raw").write_bytes(values.tobytes())
    # A TensorProto: float32, shape [1, 2], and content.
    proto = b"\x08\x01\x12\x08\x12\x02\x08\x01\x12\x02\x08\x02\x22\x08" + values.tobytes()
    (tmp_path / "proto").write_bytes(proto)
    for name, feature in (
        ("raw", tio.RawFeature("float32", [1, 2])),
        ("raw", tio.RawFeature("float32", fixed_length=8)),
        ("proto", tio.SerializedTensorFeature("float32", [1, 2])),
    ):
        [sample] = list(tio.WholeFileDataset(tmp_path / name, {"x": feature}))
        assert sample["x"].reshape(1, 2).tolist() == values.tolist()


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({**CONTENT, "more": CONTENT["content"]}, "must be a dict of one feature"),
        ({"x": tio.FixedLenFeature([], "int64")}, "got FixedLenFeature"),
        ({"x": tio.VarLenFeature("string")}, "got VarLenFeature"),
        ({"x": tio.RawFeature("uint8", shape_key="y")}, "got RawFeature"),
        ({}, "at least one feature"),
    ],
)
def test_schemas_that_are_not_one_feature(tmp_path: Path, schema: Any, reason: str) -> None:
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(tio.SchemaError, match=reason):
        tio.WholeFileDataset(tmp_path, schema)


def test_a_removed_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    dataset = tio.WholeFileDataset(tmp_path)
    (tmp_path / "x").unlink()
    with pytest.raises(FileNotFoundError):
        list(dataset)
    with pytest.raises(FileNotFoundError, match="holds no file"):
        tio.WholeFileDataset(tmp_path)
