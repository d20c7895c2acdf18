"""Tests of padding samples and whole batches, with buckets, against plain Python."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import pytest
import torch

import torchrec_io as tio
from tests.support.every_kind import contents, make_batch
from tests.support.images import encoded, noise, record_of
from torchrec_io import BytesArray, Ragged, Sample
from torchrec_io._schema.dtypes import RAW_DTYPES


def pad_plainly(rows: list[list[Any]], length: int, max_len: int | None, fill: Any) -> list[Any]:
    cut = [row[:max_len] for row in rows]
    return [row + [fill] * (length - len(row)) for row in cut]


@pytest.mark.parametrize("numbers", [getattr(torch, name) for name in RAW_DTYPES])
@pytest.mark.parametrize("inner", [(), (2, 3), (0,)])
@pytest.mark.parametrize("max_len", [None, 2])
def test_every_dtype_and_shape(
    numbers: torch.dtype, inner: tuple[int, ...], max_len: int | None
) -> None:
    size = torch.Size(inner).numel()
    values = (torch.arange(6 * size) % 2).to(numbers).reshape(6, *inner)
    ragged = Ragged(values, torch.tensor([0, 2, 2, 5, 6]))
    padded = ragged.to_padded(1, max_len, buckets=(4,))
    nothing = torch.ones(inner).to(numbers).tolist()
    rows = [values[0:2].tolist(), [], values[2:5].tolist(), values[5:6].tolist()]
    assert padded.dtype == numbers
    assert padded.shape == (4, 4, *inner)
    assert padded.tolist() == pad_plainly(rows, 4, max_len, nothing)


def test_rows_that_do_not_follow_each_other() -> None:
    """As of a RaggedFeature that does not validate, and slices of a Ragged."""
    values = torch.arange(6)
    assert Ragged(values, torch.tensor([1, 3, 4])).to_padded().tolist() == [[1, 2], [3, 0]]
    assert Ragged(values, torch.tensor([0, 3, 1, 2])).to_padded(9).tolist() == [
        [0, 1, 2],
        [9, 9, 9],
        [1, 9, 9],
    ]
    assert Ragged(values, torch.tensor([0, 2, 6]))[1:].to_padded(buckets=(5,)).tolist() == [
        [2, 3, 4, 5, 0]
    ]
    nothing = Ragged(values[:0], torch.tensor([0]))
    assert nothing.to_padded(buckets=(3,)).shape == (0, 3)


def test_padding_is_differentiable() -> None:
    for max_len, expected in ((None, [1] * 5), (2, [1, 1, 1, 1, 0])):
        values = torch.arange(5.0, requires_grad=True)
        padded = Ragged(values, torch.tensor([0, 2, 5])).to_padded(max_len=max_len)
        [gradient] = torch.autograd.grad(padded.sum(), values)
        assert gradient.tolist() == expected


@pytest.mark.parametrize("is_batch", [False, True])
def test_a_row_that_is_longer_than_the_last_bucket(is_batch: bool) -> None:
    samples = [Sample({"x": torch.arange(length)}, {"x": "int64"}) for length in (1, 3)]
    ragged = tio.collate(samples)["x"]
    given_ = tio.collate(samples) if is_batch else samples
    options: Any = {"buckets": (1, 2)}
    for call in (lambda: tio.pad_collate(given_, **options), lambda: ragged.to_padded(**options)):
        with pytest.raises(
            ValueError,
            match=r"row( of 'x')? has 3 values, more than the last bucket, 2: add a larger bucket",
        ):
            call()
    for refused in (tio.pad_collate, ragged.to_padded):
        with pytest.raises(ValueError, match="must not exceed the last bucket, 2, got 3"):
            refused(max_len=3, **options)


# ---- whole batches ----


def test_rows_of_rows_of_bytes_are_rejected() -> None:
    inner = Ragged(BytesArray.from_list([b"a"]), torch.tensor([0, 1]))
    batch = tio.collate([{"x": inner}])
    for given_ in (batch, batch.samples()):
        with pytest.raises(TypeError, match="rows of bytes cannot be padded"):
            tio.pad_collate(given_)


# ---- as a collate function ----


def test_functions_that_are_made_can_be_pickled() -> None:
    made = tio.pad_collate(max_len=2, fill=5, buckets=(2, 4))
    samples = make_batch(4).samples()
    again = pickle.loads(pickle.dumps(made))
    by_partial = functools.partial(tio.pad_collate, max_len=2, fill=5, buckets=(2, 4))
    pads: list[Any] = [made, again, by_partial]
    found = [contents(pad(samples)) for pad in pads]
    assert found[0] == found[1] == found[2]


def test_batches_and_keys_pass_through_collate() -> None:
    batch = make_batch(2)
    assert tio.collate(batch) is batch
    assert tio.collate((["a", "b"], batch)) == (["a", "b"], batch)
    keys, joined = tio.collate(list(zip("ab", batch.samples(), strict=True)))
    assert keys == ["a", "b"]
    assert contents(joined) == contents(batch)


@pytest.mark.parametrize("buckets", [(), (0, 2), (3, 2), (2, 2), [-1]])
def test_invalid_buckets(buckets: Any) -> None:
    for call in (tio.pad_collate, make_batch(1)["tokens"].to_padded):
        with pytest.raises(ValueError, match="buckets must be ascending positive lengths"):
            call(buckets=buckets)


def test_invalid_max_len() -> None:
    with pytest.raises(ValueError, match="max_len must be a non-negative integer, got -1"):
        tio.pad_collate(max_len=-1)


@pytest.mark.parametrize("data", [[b"record"], {"x": 1}, [1, 2]])
def test_data_without_columns_is_rejected(data: Any) -> None:
    with pytest.raises(TypeError, match=r"samples must be a list of dicts, got (dict|a list with)"):
        tio.collate(data)


@pytest.mark.parametrize("layout", ["CHW", "HWC"])
@pytest.mark.parametrize("options", [{}, {"max_len": 2}, {"buckets": (16,)}, {"buckets": (2,)}])
def test_padded_images_stay_as_they_are(layout: Any, options: dict[str, Any]) -> None:
    schema = {
        "image": tio.ImageFeature(mixed="pad", fill=7, layout=layout),
        "id": tio.FixedLenFeature([], "int64"),
    }
    images = [encoded(noise(4, 6)), encoded(noise(8, 3))]
    batch = tio.parse_examples(list(map(record_of, images)), schema)
    for given_ in (batch, batch.samples()):
        padded = tio.pad_collate(given_, **options)
        assert padded["image"].tolist() == batch["image"].tolist()
        assert padded.lengths["image"].tolist() == [[4, 6], [8, 3]]
