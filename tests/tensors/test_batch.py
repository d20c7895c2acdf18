"""Tests of Batch: one allocation, copies to other places, and safe reuse of memory."""

from __future__ import annotations

import copy
import gc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

import torchrec_io as tio
from tests.support.every_kind import contents, make_batch
from tests.support.wire import (
    bytes_feature,
    entry,
    example,
    int_feature,
)
from torchrec_io import _core
from torchrec_io._tensors import columns as columns_module

# ---- like a dict ----


def test_loaders_keep_a_batch_whole() -> None:
    # DataLoader handles the items of a mapping or sequence one by one.
    batch = make_batch(2)
    assert not isinstance(batch, (Mapping, Sequence))


# ---- elsewhere ----


@pytest.mark.parametrize("inline", [False, True])
def test_copies(inline: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = make_batch(4)
    size = batch.arena.numel()
    monkeypatch.setattr(columns_module, "_INLINE_BYTES", size if inline else size - 1)
    shallow, deep = copy.copy(batch), copy.deepcopy(batch)
    assert contents(shallow) == contents(deep) == contents(batch)
    batch["id"][0] = 100
    assert shallow["id"][0] == 100
    assert deep["id"][0] == 0


def test_a_batch_is_moved_in_one_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[int] = []
    move = Tensor.to

    def counting(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        moves.append(self.numel())
        return move(self, *args, **kwargs)

    batch = make_batch(4)
    monkeypatch.setattr(Tensor, "to", counting)
    batch.to("meta")
    assert moves == [batch.arena.numel()]


def test_floating_columns_are_converted_on_the_way() -> None:
    batch = make_batch(4)
    moved = batch.to("cpu", torch.bfloat16)
    assert moved.keys() == batch.keys()
    tensors = zip(tree_leaves(moved), tree_leaves(batch), strict=True)
    kinds = set()
    for found, given in tensors:
        wanted = torch.bfloat16 if given.is_floating_point() else given.dtype
        assert found.dtype == wanted
        assert torch.equal(found, given.to(wanted))
        kinds.add(given.dtype)
    assert kinds >= {torch.float32, torch.int64, torch.uint8}
    assert batch.to("cpu", non_blocking=True) is batch
    for dtype in (torch.int32, True):
        with pytest.raises(TypeError, match="dtype must be a floating dtype"):
            batch.to("cpu", dtype)  # type: ignore[arg-type]


# ---- memory that is reused ----


def large_batch(fill: int, rows: int = 24, size: int = 4096) -> tio.Batch:
    """A batch whose arena is kept for reuse when it is given up."""
    row = example(
        entry("x", bytes_feature(bytes([fill % 256]) * size)),
        entry("ids", int_feature(*[fill] * 50)),
        entry("text", bytes_feature(b"%d" % fill * 20)),
    )
    schema = {
        "x": tio.RawFeature("uint8", [size]),
        "ids": tio.VarLenFeature("int64"),
        "text": tio.FixedLenFeature([], "string"),
    }
    return tio.parse_examples([row] * rows, schema)


@pytest.mark.parametrize(
    "part",
    [
        lambda batch: batch["x"],
        lambda batch: batch["x"][3],
        lambda batch: batch["x"].numpy(),
        lambda batch: batch.samples()[5]["x"],
        lambda batch: dict(batch)["x"],
        lambda batch: copy.copy(batch)["x"],
        lambda batch: memoryview(batch["x"].numpy()),
    ],
    ids=["column", "row", "numpy", "sample", "dict", "copy", "memoryview"],
)
def test_any_view_keeps_the_memory(part: Any) -> None:
    view = part(large_batch(1))
    gc.collect()
    for fill in range(2, 60):
        large_batch(fill)
    assert bool((np.asarray(view) == 1).all())


def test_every_byte_that_shows_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    # An arena comes with any content.
    allocate = _core.allocate
    shown = []
    for junk in (0x00, 0x5A, 0xFF):

        def filled(size: int, junk: int = junk) -> Any:
            memory = allocate(size)
            memory[...] = junk
            return memory

        monkeypatch.setattr(_core, "allocate", filled)
        batch = make_batch(9)
        defaults = tio.parse_examples(
            [b""] * 5,
            {
                "a": tio.FixedLenFeature([4], "int64", [1, 2, 3, 4]),
                "b": tio.FixedLenFeature([2], "string", ["x", ""]),
                "c": tio.VarLenFeature("float32"),
                "d": tio.VarLenFeature("string"),
            },
        )
        collated = tio.collate(batch.samples())
        padded = tio.pad_collate(batch.samples())
        shown.append([contents(each) for each in (batch, defaults, collated, padded)])
    assert shown[0] == shown[1] == shown[2]
    assert shown[0][1] == {
        "a": [[1, 2, 3, 4]] * 5,
        "b": [[b"x", b""]] * 5,
        "c": [[]] * 5,
        "d": [[]] * 5,
    }
