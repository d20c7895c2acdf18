"""Batches and columns as nodes of PyTorch's pytrees, and batches that own their columns."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import open_records, write_files
from tests.support.every_kind import make_batch
from tests.support.examples import example_of
from tests.support.plain import plain

NUMBERS = {"x": tio.FixedLenFeature([], "int64"), "y": tio.FixedLenFeature([2], "float32")}


def numbers(count: int = 4) -> tio.Batch:
    records = [example_of(x=[i], y=[float(i), 0.5]) for i in range(count)]
    return tio.parse_examples(records, NUMBERS)


def nested() -> tio.Batch:
    records = [example_of(**{"id": [i], "a/b": [i, i + 1]}) for i in range(3)]
    schema: Any = {
        "id": tio.FixedLenFeature([], "int64"),
        "a": {"b": tio.FixedLenFeature([2], "int64")},
    }
    return tio.parse_examples(records, schema)


def clone(tree: Any) -> Any:
    return pytree.tree_map(torch.clone, tree)


def contents(batch: tio.Batch) -> Any:
    return plain(dict(batch)), plain(batch.lengths)


# ---- taking apart and putting together ----


def test_the_leaves_are_all_tensors_of_the_columns() -> None:
    batch = make_batch()
    leaves, _ = pytree.tree_flatten(batch)
    assert all(isinstance(leaf, Tensor) for leaf in leaves)
    storages = {leaf.untyped_storage().data_ptr() for leaf in leaves}
    assert storages == {batch.arena.untyped_storage().data_ptr()}


@pytest.mark.parametrize("make", [make_batch, numbers, nested])
def test_the_same_views_give_the_same_batch(make: Callable[[], tio.Batch]) -> None:
    batch = make()
    assert pytree.tree_unflatten(*pytree.tree_flatten(batch)) is batch
    assert pytree.tree_map(lambda leaf: leaf, batch) is batch


@pytest.mark.parametrize("make", [make_batch, numbers, nested])
def test_other_leaves_give_a_batch_that_owns_its_columns(make: Callable[[], tio.Batch]) -> None:
    batch = make()
    before = contents(batch)
    own = clone(batch)
    assert own.arena is None
    assert contents(own) == before
    assert list(own) == list(batch)
    batch.arena.zero_()
    assert contents(own) == before


def test_one_other_leaf_is_enough() -> None:
    batch = make_batch()
    for number in range(len(pytree.tree_leaves(batch))):
        leaves, structure = pytree.tree_flatten(batch)
        leaves[number] = leaves[number].clone()
        assert pytree.tree_unflatten(leaves, structure).arena is None
    assert pytree.tree_map(lambda leaf: leaf, batch) is batch


def test_a_structure_keeps_no_batch_in_memory() -> None:
    batch = make_batch()
    known = weakref.ref(batch)
    _, structure = pytree.tree_flatten(batch)
    del batch
    gc.collect()
    assert known() is None
    context: Any = structure._context
    assert pickle.loads(pickle.dumps(context)) == context


def test_keys() -> None:
    paths = [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(make_batch(1))[0]]
    assert paths[:6] == [
        "['id']", "['scores']", "['name'].data", "['name'].offsets", "['tokens'].offsets",
        "['tokens'].values",
    ]  # fmt: skip
    assert paths[-2:] == [".lengths['padded']", ".lengths['labels']"]


@pytest.mark.parametrize("name", ["tokens", "words", "steps", "name", "sparse"])
def test_columns_alone(name: str) -> None:
    column = make_batch()[name]
    copied = clone(column)
    assert type(copied) is type(column)
    assert plain(copied) == plain(column)
    assert repr(pytree.tree_map(lambda _: None, column)) != repr(column)


# ---- leaves of any kind ----


@pytest.mark.parametrize("leaf", [None, 3, "text", 0.5, (1, 2), torch.tensor(1.5)])
@pytest.mark.parametrize("make", [make_batch, nested])
def test_leaves_that_are_no_tensors(make: Callable[[], tio.Batch], leaf: Any) -> None:
    batch = pytree.tree_map(lambda _: leaf, make())
    assert batch.arena is None
    assert batch["id"] is leaf
    assert repr(batch).startswith("Batch({\n    'id': ")
    assert batch._repr_html_()
    assert all(repr(value) for value in batch.values())
    assert len(pytree.tree_leaves(copy.copy(batch), is_leaf=lambda each: each is leaf)) > 0


METHODS: dict[str, Callable[[tio.Batch], Any]] = {
    "to": lambda batch: batch.to("cpu"),
    "pin_memory": lambda batch: batch.pin_memory(),
    "is_pinned": lambda batch: batch.is_pinned(),
    "record_stream": lambda batch: batch.record_stream(None),
    "device": lambda batch: batch.device,
    "samples": lambda batch: batch.samples(),
    "num_records": lambda batch: batch.num_records,
    "select": lambda batch: batch[:2],
    "pad_collate": tio.pad_collate,
}


@pytest.mark.parametrize("method", METHODS)
def test_methods_need_tensors(method: str) -> None:
    batch = pytree.tree_map(lambda _: None, make_batch())
    with pytest.raises(TypeError, match="must be made of Tensors, got NoneType"):
        METHODS[method](batch)


def test_tensors_of_columns_are_checked() -> None:
    words = pytree.tree_map(lambda _: None, make_batch()["words"])
    with pytest.raises(TypeError, match="must be a Tensor, got NoneType"):
        words.to("cpu")
    words = pytree.tree_map(lambda leaf: leaf.float(), make_batch()["words"])
    with pytest.raises(TypeError, match=r"offsets must be a Tensor of integers, got .*float32"):
        words.tolist()


def test_parts_that_do_not_fit_are_refused() -> None:
    batch = pytree.tree_map(lambda leaf: leaf[:2], make_batch())
    with pytest.raises(ValueError, match=r"shape must hold 1 value, got \(5,\)"):
        batch["name"].tolist()
    with pytest.raises(ValueError, match="different numbers of records"):
        _ = batch.num_records


# ---- methods of batches that own their columns ----


def test_columns_that_have_left_an_arena_are_what_moves() -> None:
    batch = numbers()
    leaves, structure = pytree.tree_flatten(batch)
    mixed = pytree.tree_unflatten([leaves[0] + 10, leaves[1]], structure)
    for again in (mixed.to("cpu"), copy.copy(mixed), pickle.loads(pickle.dumps(mixed)), mixed[:]):
        assert again.arena is None
        assert again["x"].tolist() == [10, 11, 12, 13]
        assert again["y"].tolist() == batch["y"].tolist()


def test_torch_export() -> None:
    class Model(torch.nn.Module):
        def forward(self, batch: tio.Batch) -> Any:
            return batch["y"].sum(1) + batch["x"]

    program = torch.export.export(Model(), (numbers(),))
    assert program.module()(numbers()).tolist() == [0.5, 2.5, 4.5, 6.5]


# ---- DataLoader ----


@pytest.mark.parametrize("with_key", [False, True])
@pytest.mark.parametrize("workers", [0, 1])
def test_joining_batches_is_refused(tmp_path: Path, with_key: bool, workers: int) -> None:
    dataset = open_records(write_files(tmp_path, [10]), batch_size=4, with_key=with_key)
    loader: Any = DataLoader(dataset, batch_size=8, num_workers=workers)
    with pytest.raises(TypeError, match=r"DataLoader\(dataset, batch_size=None\)"):
        next(iter(loader))
