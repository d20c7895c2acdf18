"""Short descriptions of batches, columns, schemas, indexes and datasets, as text and as HTML."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.tfrecord import write_tfrecord

HOSTILE = "</td><script>alert(1)</script>\u202e"


def batch_of(**columns: Any) -> tio.Batch:
    """Return a batch of columns: lists of values, one for each record."""
    count = len(next(iter(columns.values())))
    samples = [{name: column[row] for name, column in columns.items()} for row in range(count)]
    batch: tio.Batch = tio.collate(samples)
    return batch


def html_of(shown: Any) -> str:
    found: str = shown._repr_html_()
    assert "<script" not in found
    return found


def pictures(page: str) -> list[Image.Image]:
    """Return the images of a page."""
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    return [Image.open(io.BytesIO(base64.b64decode(data))) for data in found]


# ---- ragged columns ----


def test_ragged_rows_are_shown_with_dtype_and_boundaries() -> None:
    ragged = tio.Ragged(torch.tensor([1, 2, 3]), torch.tensor([0, 2, 2, 3]))
    assert repr(ragged) == (
        "Ragged([[1, 2],\n        [],\n        [3]], rows=3, dtype=int64, offsets=[0, 2, 2, 3])"
    )
    nested = tio.Ragged(ragged, torch.tensor([0, 3]))
    assert repr(nested) == "Ragged([[[1, 2], [], [3]]], rows=1, dtype=int64, offsets=[0, 3])"
    texts = tio.Ragged(tio.BytesArray.from_list([b"a", b"b"]), torch.tensor([0, 2]))
    assert repr(texts) == "Ragged([[b'a', b'b']], rows=1, dtype=bytes, offsets=[0, 2])"
    assert "<td" in html_of(texts)


def test_long_columns_are_cut() -> None:
    values = torch.rand(1_000_000)
    ragged = tio.Ragged(values, torch.arange(0, 1_000_001, 10))
    texts = tio.BytesArray.from_list([b"x" * 1000] * 1000)
    images = tio.Ragged(torch.rand(100, 3, 50, 50), torch.arange(0, 101, 50))
    for column in (ragged, texts, images, tio.Ragged(texts, torch.tensor([0, 500, 1000]))):
        assert len(repr(column)) < 1000
        assert len(html_of(column)) < 4000
    assert "rows=100000, dtype=float32" in repr(ragged)
    assert repr(texts).startswith(f"BytesArray([{b'x' * 40!r}...")
    assert repr(texts).endswith("shape=(1000,), 1,000,000 bytes of data)")


def test_columns_of_a_device_are_described_without_their_content() -> None:
    ragged = tio.Ragged(torch.ones(4), torch.tensor([0, 4])).to("meta")
    assert repr(ragged) == "Ragged(rows=1, dtype=float32, device='meta')"
    texts = tio.BytesArray.from_list([b"abc"]).to("meta")
    assert repr(texts) == "BytesArray(shape=(1,), 3 bytes of data, device='meta')"
    batch = batch_of(x=[torch.ones(2)] * 3).to("meta")
    assert repr(batch) == "Batch({\n    'x': float32[3, 2],\n}, device='meta')"
    for shown in (ragged, texts, batch):
        assert "meta" in html_of(shown)


def test_offsets_that_are_no_integers_are_described() -> None:
    ragged = tio.Ragged(torch.ones(4), torch.tensor([0.0, 4.0]))
    assert repr(ragged).startswith("Ragged(rows=1")
    assert repr(tio.BytesArray(torch.ones(2).byte(), torch.tensor([0.0, 2.0])))


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (tio.Ragged(torch.ones(4), torch.tensor([0, 4])), r"a Ragged .* use to_padded\(\)"),
        (tio.BytesArray.from_list([b"a\0"]), r"a BytesArray .* use tolist\(\), decode\(\)"),
        (tio.Sparse(torch.zeros(1, 1).long(), torch.ones(1), (2,)), r"a Sparse .* use to_coo\(\)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_arrays_are_refused_with_what_to_use(column: Any, words: str) -> None:
    for convert in (np.asarray, np.from_dlpack, torch.utils.dlpack.from_dlpack):
        with pytest.raises(TypeError, match=words):
            convert(column)


# ---- batches ----


def test_a_batch_has_a_line_for_each_column() -> None:
    batch = batch_of(
        image=[torch.zeros(3, 4, 5, dtype=torch.uint8)] * 2, name=[b"a", HOSTILE.encode()]
    )
    assert repr(batch) == "Batch({\n    'image': uint8[2, 3, 4, 5],\n    'name': bytes[2],\n})"
    page = html_of(batch)
    assert "Batch of 2 records" in page
    assert "&lt;script&gt;" in page
    wide = batch_of(**{f"c{number}": [torch.tensor(number)] for number in range(500)})
    assert repr(wide).count("\n") < 70
    assert "# 500 in all" in repr(wide)
    assert "500 in all" in html_of(wide)
    assert html_of(wide).count("<tr>") < 110


@pytest.mark.parametrize("shape", [(3, 400, 200), (400, 200, 3), (1, 400, 200), (400, 200, 1)])
def test_a_batch_shows_its_first_images(shape: tuple[int, ...]) -> None:
    pixels = torch.zeros(100, *shape, dtype=torch.uint8)
    pixels[:, 0 if shape[0] < 4 else ...] = 255  # the first channel, or all of the pixels
    found = pictures(html_of(batch_of(image=[*pixels])))
    assert len(found) == 8
    assert found[0].size == (48, 96)
    red, *others = np.asarray(found[0].convert("RGB"))[10, 10].tolist()
    assert red == 255
    assert others == ([0, 0] if shape[0] == 3 else [255, 255])


def test_images_of_different_sizes_are_shown() -> None:
    records = []
    for size in ((2, 4), (8, 4)):
        file = io.BytesIO()
        Image.new("L", size).save(file, "PNG")
        records.append(tio.encode_example({"image": file.getvalue()}))
    batch = tio.parse_examples(records, {"image": tio.ImageFeature()})
    assert [image.size for image in pictures(html_of(batch))] == [(2, 4), (8, 4)]


def test_other_columns_are_no_images() -> None:
    for other in (
        torch.zeros(2, 3, 4, 4),
        torch.zeros(2, 3, 0, 4).byte(),
        torch.zeros(2, 9).byte(),
    ):
        assert not pictures(html_of(batch_of(x=[*other])))


# ---- schemas ----


def test_a_schema_has_a_line_for_each_feature() -> None:
    schema = tio.Schema(
        {
            "image": tio.ImageFeature(size=(8, 8), dtype="float32"),
            "label": tio.FixedLenFeature([], "int64", default_value=-1, names=["cat", "dog"]),
            "objects": {"box": tio.FixedLenFeature([4], "float32")},
        }
    )
    assert repr(schema) == (
        "Schema({\n"
        "    'image': ImageFeature(dtype='float32', size=(8, 8)),\n"
        "    'label': FixedLenFeature((), 'int64', default_value=-1, names=('cat', 'dog')),\n"
        "    'objects': {\n"
        "        'box': FixedLenFeature((4,), 'float32'),\n"
        "    },\n"
        "})"
    )
    given: Any = html_of
    assert repr(tio.ImageFeature(size=(8, 8), augment=given)) == (
        "ImageFeature(size=(8, 8), augment=html_of)"
    )
    page = html_of(schema)
    assert "Schema of 3 features" in page
    assert "objects/box" in page


def test_large_and_hostile_schemas_are_short() -> None:
    schema = tio.Schema({f"f{number}": tio.VarLenFeature("int64") for number in range(500)})
    assert repr(schema).count("\n") < 70
    assert "# 500 in all" in repr(schema)
    assert len(html_of(schema)) < 30_000
    names = [f"class {number}" for number in range(10_000)]
    default = np.zeros(10_000, "int64")
    assert len(repr(tio.FixedLenFeature([10_000], "int64", default, names=names))) < 300
    hostile = tio.Schema({HOSTILE: tio.FixedLenFeature([], "string", default_value=HOSTILE)})
    assert repr(hostile).isprintable() is False  # the lines
    assert repr(hostile).replace("\n", "").isprintable()
    assert "&lt;script&gt;" in html_of(hostile)


# ---- files ----


def test_indexes_and_datasets(tmp_path: Path) -> None:
    path = tmp_path / "<script>.tfrecord"
    write_tfrecord(path, [example_of(x=[number]) for number in range(3)])
    index = tio.RecordIndex.build(path)
    assert repr(index) == f"RecordIndex({str(path)!r}, 3 records)"
    assert f"{path.stat().st_size} bytes" in html_of(index)
    schema = {"x": tio.FixedLenFeature([], "int64")}
    datasets = (tio.TFRecordDataset, tio.TFRecordStream, tio.TFRecordMapDataset)
    for dataset in [kind(path, schema) for kind in datasets]:
        path.rename(tmp_path / "moved")  # nothing is read
        page = html_of(dataset)
        assert type(dataset).__name__ in page
        assert "FixedLenFeature" in page
        (tmp_path / "moved").rename(path)
    assert "bytes" in html_of(tio.TFRecordDataset(path))
