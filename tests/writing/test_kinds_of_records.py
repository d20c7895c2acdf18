"""Features keep their kind in all records of a writer."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torchrec_io as tio

# The value of a first record, that of a second one, and the kinds that the error names.
MIXED: list[tuple[Any, Any, str, str]] = [
    (0, 0.5, "int64", "float32"),
    (0.5, 0, "float32", "int64"),
    ("a", 1, "bytes", "int64"),
    (1, "a", "int64", "bytes"),
    ("text", math.nan, "bytes", "float32"),
    (np.arange(2), np.ones(2), "int64", "float32"),
    (torch.arange(2), torch.ones(2), "int64", "float32"),
    (np.empty(0), [1], "float32", "int64"),
]


@pytest.mark.parametrize(("first", "second", "before", "now"), MIXED)
def test_another_kind_is_refused(
    tmp_path: Path, first: Any, second: Any, before: str, now: str
) -> None:
    reason = f"would be stored as {now}, but those of an earlier record are {before}: .* in kinds="
    path = tmp_path / "a.tfrecord"
    with tio.TFRecordWriter(path) as writer:
        writer.write({"x": None, "other": 1})
        writer.write({"x": first})
        with pytest.raises(TypeError, match=rf"{reason}.*\(feature 'x'\)"):
            writer.write({"x": second, "new": 1})
        writer.write({"x": first, "new": 0.5})  # a refused record fixes no kind
    assert len(tio.TFRecordDataset(path)) == 3
    with pytest.raises(TypeError, match=rf"{reason}.*\(example 1, feature 'x'\)"):
        tio.encode_examples([{"x": first}, {"x": second}])
    with pytest.raises(TypeError, match=rf"{reason}.*\(example 2, feature 'x'\)"):
        tio.encode_sequence_examples(
            [(None, {"x": [None]}), (None, {"x": [None, first]}), (None, {"x": [second]})]
        )
    with pytest.raises(TypeError, match=rf"{reason}.*\(example 1, feature 'x'\)"):
        tio.encode_sequence_examples([({"x": first}, None), ({"x": second}, None)])


def test_shards_share_the_kinds(tmp_path: Path) -> None:
    for options in ({"num_shards": 3}, {"max_bytes": 1}):
        with tio.ShardedWriter(tmp_path / f"{len(options)}", **options) as writer:  # type: ignore[arg-type]
            writer.write({"x": 1})
            with pytest.raises(TypeError, match=r"those of an earlier record are int64"):
                writer.write({"x": 0.5})
            writer.write({"x": 2})
        assert sum(map(len, map(tio.TFRecordDataset, writer.paths))) == 2
        for path in writer.paths:
            Path(path).unlink()


def test_named_kinds_allow_integers_among_floats(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    with tio.TFRecordWriter(path, kinds={"reward": "float32"}) as writer:
        rewards: list[Any] = [0, 0.5, True, [], None, np.int8(3)]
        for reward in rewards:
            writer.write({"reward": reward})
    schema = {"reward": tio.VarLenFeature("float32")}
    read = [sample["reward"].tolist() for sample in tio.TFRecordDataset(path, schema)]
    assert read == [[0.0], [0.5], [1.0], [], [], [3.0]]


def test_names_of_both_parts_are_independent() -> None:
    pairs: list[Any] = [({"x": 1}, {"x": [0.5]}), ({"x": 2}, {"x": [1.5]}), ({}, {"x": ["a"]})]
    assert len(tio.encode_sequence_examples(pairs[:2])) == 2
    with pytest.raises(TypeError, match="are float32"):
        tio.encode_sequence_examples(pairs)
    # The same names and kinds in another part are other features.
    moved: list[Any] = [({"a": 1, "b": 1}, {}), ({"a": 1}, {"b": [1]}), ({}, {"b": ["text"]})]
    with pytest.raises(TypeError, match=r"are int64.*\(example 2, feature 'b'\)"):
        tio.encode_sequence_examples(moved)


def test_each_of_many_layouts() -> None:
    rows: list[dict[str, Any]] = [{f"f{j}": j for j in range(i % 7)} for i in range(50)]
    rows.append({"f5": 5, "f3": 0.5})
    with pytest.raises(TypeError, match=r"\(example 50, feature 'f3'\)"):
        tio.encode_examples(rows)
    swapped = [{"a": 1, "b": 0.5}, {"b": 1.5, "a": 2}, {"a": 0.5, "b": 2}]
    with pytest.raises(TypeError, match=r"\(example 2, feature 'a'\)"):
        tio.encode_examples(swapped)


@pytest.mark.parametrize(
    "encode",
    [
        lambda: tio.encode_example({"x": 1}) and tio.encode_example({"x": 0.5}),
        lambda: tio.encode_examples([{"x": 1}]) and tio.encode_examples([{"x": 0.5}]),
    ],
)
def test_calls_are_independent(encode: Callable[[], Any]) -> None:
    assert encode()
