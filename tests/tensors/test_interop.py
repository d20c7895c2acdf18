"""Tests of converting batches to the types of other libraries."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

import torchrec_io as tio
from tests.support.every_kind import contents, make_batch, plain
from tests.support.examples import example_of
from torchrec_io import BytesArray, Ragged, Sparse
from torchrec_io._tensors import interop


def shares_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(one.untyped_storage()._cdata == other.untyped_storage()._cdata)


# ---- tensordict ----


def test_tensordict_shares_tensors() -> None:
    batch = make_batch(5)
    found = batch.to_tensordict()
    assert isinstance(found, TensorDict)
    assert found.batch_size == torch.Size([5])
    assert set(found.keys()) == {*batch, "lengths"}
    for name in ("id", "scores", "padded"):
        assert torch.equal(found[name], batch[name])
        assert shares_memory(found[name], batch.arena)
    for name in ("tokens", "narrow"):
        nested = found[name]
        assert nested.is_nested
        assert nested.layout == torch.jagged
        assert [row.tolist() for row in nested.unbind()] == batch[name].tolist()
        assert shares_memory(nested.values(), batch.arena)
    assert found["lengths", "padded"].tolist() == batch.lengths["padded"].tolist()
    for name in ("name", "words", "steps", "sparse", "image"):
        rows = list(found[name])
        assert len(rows) == 5
        for row, sample in zip(rows, batch.samples(), strict=True):
            assert alike(row, sample[name])


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, bytes):
        return bool(one == other)
    return type(one) is type(other) and bool(plain(one) == plain(other))


def test_tensordict_of_nothing() -> None:
    batch = tio.parse_examples([], {"name": tio.FixedLenFeature([], "string")})
    assert batch.to_tensordict().batch_size == torch.Size([0])


def test_a_column_named_lengths() -> None:
    batch = tio.collate([tio.Sample({"lengths": 1, "x": torch.ones(2)}, {"x": "int64"})])
    assert batch.to_tensordict()["lengths"].tolist() == [1]
    with pytest.raises(ValueError, match="must not have a column named 'lengths'"):
        tio.pad_collate(batch).to_tensordict()


# ---- jagged ----


def test_rows_that_are_not_contiguous() -> None:
    values = torch.arange(6)
    for offsets in ([1, 6], [0, 5], [0, 4, 2, 6]):
        ragged = Ragged(values, torch.tensor(offsets))
        with pytest.raises(ValueError, match="not contiguous"):
            ragged.to_jagged()
        with pytest.raises(ValueError, match="not contiguous"):
            interop.to_keyed_jagged({"x": ragged}, ["x"], torch.int64)
    for other in (BytesArray.from_list([b""]), Ragged(values[:1], torch.tensor([0, 1]))):
        with pytest.raises(TypeError, match="only a Ragged of numbers"):
            Ragged(other, torch.tensor([0, 1])).to_jagged()


@given(st.integers(0, 5), st.data(), st.sampled_from([torch.int32, torch.int64]))
def test_keyed_jagged(count: int, data: st.DataObject, dtype: torch.dtype) -> None:
    lists = st.lists(st.integers(-9, 9), max_size=4)
    columns = {
        name: data.draw(st.lists(lists, min_size=count, max_size=count)) for name in ("a", "b", "c")
    }
    schema: dict[str, Any] = {name: tio.VarLenFeature("int64") for name in columns}
    schema |= {"one": tio.FixedLenFeature([], "int64"), "two": tio.FixedLenFeature([2], "int64")}
    records = [
        example_of(**{name: rows[i] for name, rows in columns.items()}, one=[i], two=[i, -i])
        for i in range(count)
    ]
    batch = tio.parse_examples(records, schema)
    values, lengths = batch["a"].to_jagged()
    assert values is batch["a"].values
    assert lengths.tolist() == [len(row) for row in columns["a"]]
    columns |= {
        "one": [[i] for i in range(count)],
        "two": [[i, -i] for i in range(count)],
    }
    names = data.draw(st.lists(st.sampled_from(sorted(columns)), min_size=1, unique=True))
    keys, values, lengths = batch.to_keyed_jagged(names, dtype)
    assert keys == names
    assert lengths.dtype == dtype
    assert lengths.tolist() == [len(row) for name in names for row in columns[name]]
    assert values.tolist() == [value for name in names for row in columns[name] for value in row]
    assert values.dim() == 1
    if len(names) == 1:
        assert shares_memory(values, batch.arena)


def test_columns_that_cannot_be_keyed_jagged() -> None:
    batch = make_batch(3)
    with pytest.raises(KeyError, match="no such"):
        batch.to_keyed_jagged(["no such"])
    with pytest.raises(ValueError, match="at least one name"):
        batch.to_keyed_jagged([])
    for name in ("name", "words", "steps", "sparse", "image"):
        with pytest.raises(TypeError, match=f"'{name}' must be a Ragged of numbers or a Tensor"):
            batch.to_keyed_jagged(["tokens", name])


# ---- parts of a batch alone ----


def test_parts_know_their_device() -> None:
    batch = make_batch(3)
    for name in ("name", "words", "steps", "sparse"):
        part = batch[name]
        assert isinstance(part, (BytesArray, Ragged, Sparse))
        assert part.device == torch.device("cpu")
        assert part.to("meta").device == torch.device("meta")
    assert contents(batch) == contents(make_batch(3))
