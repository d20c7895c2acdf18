"""Values that TFDS reads from the golden TFDS directories, and their comparison with ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.conftest import TESTS
from torchrec_io import BytesArray, Ragged

GOLDEN = TESTS / "data" / "tfds"


@dataclass(frozen=True)
class GoldenSplit:
    """A split of a golden directory.

    Attributes:
        directory: Directory of the version.
        split: Name of the split.
        shards: Records of each shard, in the form described in ``tests/data/README.md``.
    """

    directory: Path
    split: str
    shards: list[list[Any]]

    @property
    def records(self) -> list[Any]:
        """Records of all shards."""
        return [record for shard in self.shards for record in shard]

    def __str__(self) -> str:
        where = self.directory.relative_to(GOLDEN).as_posix()
        return f"{where}-{self.split}"


def golden_splits() -> Iterator[GoldenSplit]:
    """Yield all splits of all golden directories."""
    for path in sorted(GOLDEN.glob("*/expected.json")):
        for where, splits in json.loads(path.read_text("utf-8"))["directories"].items():
            for split, known in splits.items():
                yield GoldenSplit(path.parent / where, split, known["shards"])


def golden_split(where: str, split: str = "train") -> GoldenSplit:
    """Return a split of the golden directory ``where``."""
    (found,) = (s for s in golden_splits() if s.directory == GOLDEN / where and s.split == split)
    return found


def at(value: Any, index: int) -> Any:
    """Return one row of a batch or of the steps of an episode, nested like the whole."""
    if isinstance(value, dict):
        return {name: at(inner, index) for name, inner in value.items()}
    return value[index]


def compare(found: Any, expected: Any, where: str = "") -> None:
    """Fail unless a value equals TFDS's, with the same dtype and shape.

    Args:
        found: Value of a sample.
        expected: Value of ``expected.json``.
        where: Path of feature names to the value.
    """
    if isinstance(expected, dict):
        assert isinstance(found, dict), where
        assert set(found) == set(expected), where
        for name, inner in expected.items():
            compare(found[name], inner, f"{where}.{name}")
        return
    kind, *rest = expected
    if kind == "unread":
        return
    if kind == "differ":
        compare(found, ours_of(*rest), where)
    elif kind == "dataset":
        compare_steps(found, rest[0], where)
    elif kind == "ragged":
        assert isinstance(found, Ragged | Tensor | BytesArray), where
        assert len(found) == len(rest[0]), where
        for number, row in enumerate(rest[0]):
            compare(found[number], row, f"{where}[{number}]")
    elif kind == "string":
        shape, values = rest
        compare_strings(found, shape, values, where)
    else:
        compare_numbers(found, tensor_of(kind, *rest), where)


def ours_of(theirs: Any, numpy: Any) -> Any:
    """Choose which of TFDS's two readers must be matched: NumPy's, if its shape is right."""
    dtype, shape, _ = theirs
    rows = (
        numpy[1] if numpy[0] == "ragged" else []
    )  # NumPy's reader returns images of a sequence like this
    if rows and shape[:1] == [len(rows)] and all(row[:2] == [dtype, shape[1:]] for row in rows):
        return numpy
    return numpy if numpy[:2] == [dtype, shape] else theirs


def compare_steps(found: Any, steps: list[Any], where: str) -> None:
    """Compare a nested dataset: all leaves have one row for each step."""
    assert set(lengths_of(found)) == {len(steps)}, where
    for number, step in enumerate(steps):
        compare(at(found, number), step, f"{where}[{number}]")


def lengths_of(value: Any) -> Iterator[int]:
    """Yield the lengths of all leaves."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from lengths_of(inner)
    else:
        yield len(value)


def compare_strings(found: Any, shape: list[int], values: list[str], where: str) -> None:
    """Compare bytes, or an array of bytes."""
    expected = [bytes.fromhex(value) for value in values]
    if not shape:
        assert found == expected[0], where
        return
    assert isinstance(found, BytesArray), where
    assert found.shape == tuple(shape), where
    assert found.flat() == expected, where


def compare_numbers(found: Any, expected: Tensor, where: str) -> None:
    """Compare numbers bit by bit."""
    assert isinstance(found, Tensor), where
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), where
    assert torch.equal(bits(found), bits(expected)), (where, found, expected)


def bits(tensor: Tensor) -> Tensor:
    """Return the bytes of a tensor."""
    return tensor.reshape(-1).view(torch.uint8)


def tensor_of(dtype: str, shape: list[int], values: Any) -> Tensor:
    """Return the tensor of an array of ``expected.json``."""
    if dtype == "int64":
        return torch.tensor(values, dtype=torch.int64).reshape(shape)
    content, of = bytearray.fromhex(values), getattr(torch, dtype)
    return (torch.frombuffer(content, dtype=of) if content else torch.empty(0, dtype=of)).reshape(
        shape
    )
