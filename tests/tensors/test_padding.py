"""Tests of padding samples and whole batches, with buckets, against plain Python."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import SCHEMA, write_files
from tests.support.every_kind import contents, make_batch
from tests.support.examples import example_of, sequence_example_of
from tests.support.images import encoded, noise, record_of
from torchrec_io import BytesArray, Ragged, Sample

rows_of_numbers = st.lists(st.lists(st.integers(0, 100), max_size=6), min_size=1, max_size=6)
max_lens = st.one_of(st.none(), st.integers(0, 7))
bucket_sets = st.one_of(st.none(), st.sets(st.integers(1, 9), min_size=1).map(sorted).map(tuple))


def padded_length(longest: int, max_len: int | None, buckets: tuple[int, ...] | None) -> int | None:
    """What the documentation says; None where it is an error."""
    if max_len is not None:
        longest = min(longest, max_len)
    if buckets is None:
        return longest
    return next((bucket for bucket in buckets if bucket >= longest), None)


def pad_plainly(rows: list[list[Any]], length: int, max_len: int | None, fill: Any) -> list[Any]:
    cut = [row[:max_len] for row in rows]
    return [row + [fill] * (length - len(row)) for row in cut]


@given(rows_of_numbers, st.integers(-3, 3), max_lens, bucket_sets)
def test_numbers(
    rows: list[list[int]], fill: int, max_len: int | None, buckets: tuple[int, ...] | None
) -> None:
    samples = [Sample({"x": torch.tensor(row).long()}, {"x": "int64"}) for row in rows]
    ragged = tio.collate(samples)["x"]
    length = padded_length(max(map(len, rows)), max_len, buckets)
    options: Any = {"fill": fill, "max_len": max_len, "buckets": buckets}
    if max_len is not None and buckets and max_len > buckets[-1]:
        for call in (tio.pad_collate, ragged.to_padded):
            with pytest.raises(
                ValueError, match=f"must not exceed the last bucket, {buckets[-1]}, got {max_len}"
            ):
                call(**options)
        return
    if length is None:
        longest, last = max(map(len, rows)), (buckets or ())[-1]
        message = f"has {longest} values, more than the last bucket, {last}: add a larger bucket"
        for pad in (tio.pad_collate(**options), lambda _: ragged.to_padded(**options)):
            for given_ in (samples, tio.collate(samples)):
                with pytest.raises(ValueError, match=message):
                    pad(given_)
        return
    expected = pad_plainly(rows, length, max_len, fill)
    assert ragged.to_padded(**options).tolist() == expected
    for given_ in (samples, tio.collate(samples)):
        batch = tio.pad_collate(given_, **options)
        assert isinstance(batch["x"], Tensor)
        assert tuple(batch["x"].shape) == (len(rows), length)
        assert batch["x"].tolist() == expected
        assert batch.lengths["x"].tolist() == [len(row[:max_len]) for row in rows]
        assert batch.lengths["x"].dtype == torch.int64


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "int8",
        "int32",
        "float16",
        "bfloat16",
        "float64",
    ],
)
@pytest.mark.parametrize("inner", [(), (2,), (2, 3), (0,)])
@pytest.mark.parametrize("max_len", [None, 2])
def test_every_dtype_and_shape(dtype: str, inner: tuple[int, ...], max_len: int | None) -> None:
    size = torch.Size(inner).numel()
    numbers = getattr(torch, dtype)
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


# ---- whole batches ----


@given(st.integers(1, 6), st.integers(0, 9), max_lens, st.sampled_from([None, (3, 9), (9,)]))
def test_a_batch_is_padded_as_its_samples_are(
    count: int, first: int, max_len: int | None, buckets: tuple[int, ...] | None
) -> None:
    batch = make_batch(count, first)
    before = contents(batch)
    pad = tio.pad_collate(fill=7, max_len=max_len, buckets=buckets)
    padded, expected = pad(batch), pad(batch.samples())
    assert contents(batch) == before
    assert list(padded) == list(expected) == list(batch)
    assert contents(padded) == contents(expected)
    for name, value in padded.items():
        assert isinstance(value, type(expected[name]))
        assert getattr(value, "dtype", None) == getattr(expected[name], "dtype", None)
    ragged = {"tokens", "narrow", "words", "steps", "padded", "labels", "frames"}
    assert set(padded.lengths) == ragged
    assert padded.arena.data_ptr() != batch.arena.data_ptr()
    # It goes on as any batch: as samples, joined again, padded again.
    assert contents(tio.collate(padded.samples())).keys() == contents(expected).keys()
    assert contents(pad(padded)) == contents(padded)


texts = st.lists(st.lists(st.binary(max_size=4), max_size=4), min_size=1, max_size=5)


@given(texts, max_lens, st.sampled_from([None, (2, 8), (8,)]))
def test_bytes(
    rows: list[list[bytes]], max_len: int | None, buckets: tuple[int, ...] | None
) -> None:
    schema = tio.Schema(
        context={"x": tio.VarLenFeature("string")},
        sequence={
            "y": tio.FixedLenSequenceFeature([], "string"),
            "z": tio.FixedLenSequenceFeature([2], "string"),
        },
    )
    records = [
        sequence_example_of(
            {"x": row}, {"y": [[text] for text in row], "z": [[text, b"z"] for text in row]}
        )
        for row in rows
    ]
    batch = tio.parse_sequence_examples(records, schema)
    length = padded_length(max(map(len, rows)), max_len, buckets)
    assert length is not None
    padded = tio.pad_collate(batch, max_len=max_len, buckets=buckets)
    for name in "xy":
        column = padded[name]
        assert isinstance(column, BytesArray)
        assert column.shape == (len(rows), length)
        assert column.tolist() == pad_plainly(rows, length, max_len, b"")
        assert padded.lengths[name].tolist() == [len(row[:max_len]) for row in rows]
    assert padded["z"].shape == (len(rows), length, 2)
    pairs = [[[text, b"z"] for text in row] for row in rows]
    assert padded["z"].tolist() == pad_plainly(pairs, length, max_len, [b"", b""])


def test_bytes_that_fill() -> None:
    schema = {
        "x": tio.FixedLenSequenceFeature([], "string", allow_missing=True, default_value=b"-"),
        "n": tio.FixedLenSequenceFeature([], "int64", allow_missing=True, default_value=-1),
    }
    records = [example_of(x=[b"a", b"bc"], n=[1]), example_of(x=[], n=[1, 2, 3])]
    batch = tio.parse_examples(records, schema)
    padded = tio.pad_collate(batch, buckets=(4,), max_len=2, fill=9)
    assert padded["x"].flat() == [b"a", b"bc", b"-", b"-", b"-", b"-", b"-", b"-"]
    assert padded["n"].tolist() == [[1, -1, -1, -1], [1, 2, -1, -1]]
    assert contents(padded) == contents(
        tio.pad_collate(batch.samples(), buckets=(4,), max_len=2, fill=9)
    )


def test_columns_that_were_viewed_together_stay_so() -> None:
    names = [f"f{i}" for i in range(40)]
    schema: dict[str, Any] = {name: tio.FixedLenFeature([], "int64") for name in names}
    schema["rows"] = tio.VarLenFeature("int64")
    records = [example_of(**{name: [i] for i, name in enumerate(names)}, rows=[1])] * 3
    padded = tio.pad_collate(tio.parse_examples(records, schema))
    assert [padded[name].tolist() for name in names] == [[i] * 3 for i in range(40)]
    assert len(padded.columns.layout) == 3  # those, the rows and their lengths


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


@pytest.mark.parametrize(("batched", "method"), [(False, "forkserver"), (True, "fork")])
def test_in_a_loader(tmp_path: Any, batched: bool, method: str) -> None:
    dataset = tio.TFRecordDataset(
        write_files(tmp_path, [9]), SCHEMA, batch_size=3 if batched else None, with_key=True
    )
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=None if batched else 3,
        collate_fn=tio.pad_collate(buckets=(4,)),
        num_workers=1,
        multiprocessing_context=method,
    )
    found = list(loader)
    assert all(len(keys) == 3 and isinstance(keys, list) for keys, _ in found)
    assert {tuple(batch["tokens"].shape) for _, batch in found} == {(3, 4)}
    assert [i for _, batch in found for i in batch["id"].tolist()] == list(range(9))


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


def test_a_bucket_names_its_column() -> None:
    batch = make_batch(4)
    for given_ in (batch, batch.samples()):
        with pytest.raises(
            ValueError, match=r"of 'tokens' has 3 values, more than the last bucket, 2"
        ):
            tio.pad_collate(given_, buckets=(1, 2))


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


@given(rows_of_numbers, st.booleans(), max_lens, st.sampled_from([None, (6,), (3, 9)]))
def test_columns_padded_to_a_bucket_get_another_length(
    rows: list[list[int]], are_bytes: bool, max_len: int | None, buckets: tuple[int, ...] | None
) -> None:
    def value(row: list[int]) -> Any:
        return BytesArray.from_list(list(map(bytes, row))) if are_bytes else torch.tensor(row)

    assume(max_len is None or buckets is None or max_len <= buckets[-1])  # others are refused
    samples = [Sample({"x": value(row)}, {"x": "int64"}) for row in rows]
    options: Any = {"max_len": max_len, "buckets": buckets}
    again = tio.pad_collate(tio.pad_collate(samples, buckets=(8,)), **options)
    once = tio.pad_collate(samples, **options)
    assert again["x"].tolist() == once["x"].tolist()
    assert again.lengths["x"].tolist() == once.lengths["x"].tolist()


def test_rows_of_rows_of_different_dtypes_are_promoted() -> None:
    offsets = torch.tensor([0, 1, 3])
    whole = {"x": Ragged(torch.tensor([1, 2, 3]), offsets)}
    halves = {"x": Ragged(torch.tensor([0.5, 1.5, 2.5]), offsets)}
    for samples in ([whole, halves], [halves, whole]):
        padded = tio.pad_collate(samples)["x"]
        assert padded.dtype == torch.float32
        assert padded.tolist() == tio.collate(samples)["x"].to_padded().tolist()
