"""Tests of Batch: one allocation, copies to other places, and safe reuse of memory."""

from __future__ import annotations

import copy
import gc
import io
import itertools
import multiprocessing
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import torchrec_io as tio
from tests.support.every_kind import tensors_of
from tests.support.wire import (
    bytes_feature,
    bytes_values,
    delimited,
    entry,
    example,
    float_feature,
    int_feature,
)
from torchrec_io import _core
from torchrec_io._tensors import columns as columns_module
from torchrec_io._tensors.arena import allocate_arena

# A column of every kind.
SCHEMA: dict[str, Any] = {
    "label": tio.FixedLenFeature([], "int64"),
    "weight": tio.FixedLenFeature([], "int64", 7),
    "matrix": tio.FixedLenFeature([2, 2], "float16"),
    "small": tio.FixedLenFeature([3], "uint8"),
    "flag": tio.FixedLenFeature([], "bool"),
    "name": tio.FixedLenFeature([], "string"),
    "names": tio.FixedLenFeature([2], "string"),
    "ids": tio.VarLenFeature("int32"),
    "scores": tio.VarLenFeature("float32"),
    "words": tio.VarLenFeature("string"),
    "raw": tio.RawFeature("int16", [2]),
    "free": tio.RawFeature("uint8", shape_key="shape"),
    "image": tio.ImageFeature(),
    "thumb": tio.ImageFeature(1, dtype="float32", size=(2, 2)),
}


def png(height: int, width: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), (1, 2, 3)).save(file, "PNG")
    return file.getvalue()


def record(i: int) -> bytes:
    return example(
        entry("label", int_feature(i)),
        entry("matrix", float_feature(*[i + 0.5] * 4)),
        entry("small", int_feature(i % 256, 1, 2)),
        entry("flag", int_feature(i % 2)),
        entry("name", bytes_feature(b"n%d" % i)),
        entry("names", bytes_feature(b"a" * (i % 5), b"b")),
        entry("ids", int_feature(*range(i % 4))),
        entry("scores", float_feature(*[float(i)] * (i % 3))),
        entry("words", delimited(1, bytes_values([b"w%d" % i] * (i % 3)))),
        entry("raw", bytes_feature(np.array([i, -1], "<i2").tobytes())),
        entry("free", bytes_feature(bytes(i % 7))),
        entry("shape", int_feature(i % 7)),
        entry("image", bytes_feature(png(1 + i % 3, 2))),
        entry("thumb", bytes_feature(png(3, 3))),
    )


def make_batch(count: int = 5, first: int = 0) -> tio.Batch:
    return tio.parse_examples([record(first + i) for i in range(count)], SCHEMA)


def plain(value: Any) -> Any:
    """A column or a sample's value as Python numbers, bytes and lists."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def contents(batch: tio.Batch) -> dict[str, Any]:
    return {name: plain(value) for name, value in batch.items()}


def storage_of(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


# ---- one allocation ----


def test_columns_do_not_overlap() -> None:
    batch = make_batch(30)
    spans = sorted(
        (tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes)
        for value in batch.values()
        for tensor in tensors_of(value)
        if tensor.numel()
    )
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
    assert spans[0][0] >= batch.arena.data_ptr()
    assert spans[-1][1] <= batch.arena.data_ptr() + batch.arena.numel()


def test_columns_can_be_written_to() -> None:
    batch = make_batch(3)
    before = contents(batch)
    batch["label"].add_(1)
    assert contents(batch) == {**before, "label": [1, 2, 3]}


def test_an_arena_is_aligned_and_of_its_size() -> None:
    for size in (0, 1, 64, 100, 1 << 16, (1 << 20) + 1):
        arena = allocate_arena(size)
        assert arena.dtype == torch.uint8
        assert arena.numel() == size
        assert arena.data_ptr() % 64 == 0 or size == 0


# ---- like a dict ----


def test_a_batch_is_read_as_a_dict() -> None:
    batch = make_batch(2)
    assert list(batch) == list(batch.keys()) == list(SCHEMA)
    assert len(batch) == len(SCHEMA)
    assert "label" in batch
    assert "shape" not in batch
    assert batch.get("label") is batch["label"]
    assert batch.get("shape") is None
    assert batch.get("shape", 3) == 3
    with pytest.raises(KeyError):
        batch["shape"]
    assert dict(batch).keys() == SCHEMA.keys()
    assert dict(**batch)["label"] is batch["label"]
    assert [id(value) for _, value in batch.items()] == [id(batch[name]) for name in SCHEMA]
    assert [id(value) for value in batch.values()] == [id(batch[name]) for name in SCHEMA]
    assert batch.lengths == {}


def test_loaders_keep_a_batch_whole() -> None:
    # DataLoader handles the items of a mapping or sequence one by one.
    batch = make_batch(2)
    assert not isinstance(batch, (Mapping, Sequence))


def test_repr_of_a_batch() -> None:
    text = repr(make_batch(2))
    for part in (
        "label: int64[2]",
        "matrix: float16[2, 2, 2]",
        "names: bytes[2, 2]",
        "ids: Ragged int32[2, ...]",
        "words: Ragged bytes[2, ...]",
        "image: list of 2 tensors",
    ):
        assert part in text


# ---- elsewhere ----


@pytest.mark.parametrize("inline", [False, True])
def test_copies(inline: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = make_batch(4)
    size = batch.arena.numel()
    monkeypatch.setattr(columns_module, "_INLINE_BYTES", size if inline else size - 1)
    shallow, deep = copy.copy(batch), copy.deepcopy(batch)
    assert contents(shallow) == contents(deep) == contents(batch)
    batch["label"][0] = 100
    assert shallow["label"][0] == 100
    assert deep["label"][0] == 0


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


def check_large(batch: tio.Batch, fill: int) -> None:
    assert bool((batch["x"] == fill % 256).all())
    assert bool((batch["ids"].values == fill).all())
    assert set(batch["text"].flat()) == {b"%d" % fill * 20}


def test_held_batches_keep_their_contents_while_others_come_and_go() -> None:
    held: dict[int, tio.Batch] = {}
    for fill in range(200):
        batch = large_batch(fill)
        check_large(batch, fill)
        if fill % 7 == 0:
            held[fill] = batch
        if fill % 50 == 49:
            del held[min(held)]
    assert len(held) > 20
    assert len({storage_of(batch.arena) for batch in held.values()}) == len(held)
    for fill, batch in held.items():
        check_large(batch, fill)


def count_arenas(batches: int) -> tuple[int, int]:
    """Return the number of different arenas of some batches, and the kept bytes after them."""
    places = set()
    for fill in range(batches):
        batch = large_batch(fill)
        places.add(storage_of(batch.arena))
        del batch
    return len(places), _core.kept_bytes()


def test_memory_is_reused() -> None:
    # In a new process: other tests may have kept as much memory as is ever kept.
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        arenas, kept = pool.apply(count_arenas, (50,))
    assert arenas < 15
    assert kept > 0


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


def test_memory_is_reused_safely_by_threads() -> None:
    bad: list[int] = []

    def work(first: int) -> None:
        held: list[tuple[int, tio.Batch]] = []
        for fill in range(first, first + 60):
            held.append((fill, large_batch(fill, rows=20)))
            if len(held) > 5:
                fill_then, batch = held.pop(0)
                if not bool((batch["x"] == fill_then % 256).all()):
                    bad.append(fill_then)

    threads = [threading.Thread(target=work, args=(1000 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not bad


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
