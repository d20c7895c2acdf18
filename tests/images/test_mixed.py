"""Images of several sizes in one batch: a list, or padded."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.images import encoded, noise, record_of, write_images

LAYOUTS: list[Any] = ["CHW", "HWC"]
shapes = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=5)


def batch_of(arrays: list[Any], **options: Any) -> tio.Batch:
    records = [record_of(encoded(array), number) for number, array in enumerate(arrays)]
    return tio.parse_examples(records, {"image": tio.ImageFeature(**options)})


def arranged(array: Any, layout: str) -> Any:
    return array.transpose(2, 0, 1) if layout == "CHW" else array


def check_padded(batch: tio.Batch, arrays: list[Any], layout: str, fill: int) -> None:
    """Compare padding with NumPy's."""
    column, lengths = batch["image"], batch.lengths["image"]
    assert lengths.dtype == torch.int64
    assert lengths.shape == (len(arrays), 2)
    assert lengths.tolist() == [list(array.shape[:2]) for array in arrays]
    height = max((array.shape[0] for array in arrays), default=0)
    width = max((array.shape[1] for array in arrays), default=0)
    assert column.shape[1:] == ((3, height, width) if layout == "CHW" else (height, width, 3))
    for row, array in zip(column.numpy(), arrays, strict=True):
        margin = ((0, height - array.shape[0]), (0, width - array.shape[1]), (0, 0))
        padded = np.pad(array, margin, constant_values=fill)
        np.testing.assert_array_equal(row, arranged(padded, layout))


@given(shapes, st.sampled_from(LAYOUTS), st.integers(0, 255))
def test_padded_images_can_be_unpadded(
    sizes: list[tuple[int, int]], layout: Any, fill: int
) -> None:
    arrays = [noise(*size, seed=number) for number, size in enumerate(sizes)]
    batch = batch_of(arrays, mixed="pad", layout=layout, fill=fill)
    check_padded(batch, arrays, layout, fill)
    check_padded(pickle.loads(pickle.dumps(batch)), arrays, layout, fill)
    samples = batch.samples()
    for sample, array in zip(samples, arrays, strict=True):
        np.testing.assert_array_equal(sample["image"].numpy(), arranged(array, layout))
        data = sample["image"].untyped_storage().data_ptr()
        assert data == batch.arena.untyped_storage().data_ptr()
    if samples:
        check_padded(tio.collate(samples), arrays, layout, fill)
        again = pickle.loads(pickle.dumps(samples))
        check_padded(tio.pad_collate(again, max_len=1), arrays, layout, fill)


@given(shapes, st.sampled_from(["float32", "float64", "float16"]), st.integers(0, 255))
def test_padding_is_scaled_like_pixels(sizes: list[tuple[int, int]], dtype: str, fill: int) -> None:
    arrays = [noise(*size) for size in sizes]
    column = batch_of(arrays, mixed="pad", fill=fill, dtype=dtype)["image"]
    whole = batch_of(arrays, mixed="pad", fill=fill)["image"]
    assert column.dtype == getattr(torch, dtype)
    close = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-6}[dtype]
    assert torch.allclose(column.double(), whole.double() / 255, rtol=0, atol=close)


def test_crops_of_several_sizes_are_padded_too() -> None:
    def half(height: int, width: int, _: np.random.Generator) -> tio.Crop:
        return tio.Crop(0, 0, height // 2, width)

    arrays = [noise(4, 5), noise(8, 3)]
    batch = batch_of(arrays, mixed="pad", layout="HWC", augment=half)
    check_padded(batch, [array[: len(array) // 2] for array in arrays], "HWC", 0)


def test_incompatible_samples_become_a_list() -> None:
    color = batch_of([noise(4, 5)], mixed="pad").samples()
    gray = batch_of([noise(4, 5)], mixed="pad", channels=1).samples()
    joined = tio.collate([*color, *gray])
    assert isinstance(joined["image"], list)
    assert joined.lengths == {}
    # Fewer axes than are padded.
    lines = [tio.Sample({"image": sample["image"][0, 0]}, *sample.hints) for sample in color]
    assert tio.collate(lines)["image"].shape == (1, 5)


def test_padded_images_from_a_dataset(tmp_path: Any) -> None:
    arrays = [noise(3 + number % 4, 9 - number % 5, seed=number) for number in range(10)]
    path = write_images(tmp_path / "x.tfrecord", [encoded(array) for array in arrays])
    schema = {"image": tio.ImageFeature(mixed="pad", layout="HWC")}
    dataset = tio.TFRecordDataset(path, schema, batch_size=4)
    batches = list(DataLoader(dataset, batch_size=None, num_workers=2))
    assert [len(batch["image"]) for batch in batches] == [4, 4, 2]
    for number, batch in enumerate(batches):
        check_padded(batch, arrays[4 * number : 4 * number + 4], "HWC", 0)
    samples = DataLoader(dataset.replace(batch_size=None), batch_size=5, collate_fn=tio.collate)
    found = [
        image[:height, :width].tolist()
        for batch in samples
        for image, (height, width) in zip(
            batch["image"], batch.lengths["image"].tolist(), strict=True
        )
    ]
    assert sorted(found) == sorted(array.tolist() for array in arrays)


def test_invalid_image_in_a_padded_batch(tmp_path: Any) -> None:
    images = [encoded(noise(3, 4)), b"none", encoded(noise(5, 2))]
    path = write_images(tmp_path / "x.tfrecord", images)
    schema = {"image": tio.ImageFeature(mixed="pad")}
    dataset = tio.TFRecordDataset(path, schema, batch_size=3, on_error="skip")
    [batch] = dataset
    assert batch.lengths["image"].tolist() == [[3, 4], [5, 2]]
    assert dataset.skipped == 1
