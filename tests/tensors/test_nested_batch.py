"""Tests of batches and samples of nested schemas."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

import torchrec_io as tio
from tests.support.nestings import (
    Tree,
    flat_schema,
    nested_like,
    plain,
    record,
    specs_of,
    trees,
)
from tests.support.tfrecord import write_tfrecord

VARYING = tio.VarLenFeature("int64")
TREE: Tree = {
    "id": "number",
    "objects": {"label": "tokens", "deep": {"name": "words", "score": "pair"}, "box": "boxes"},
    "steps": {"padded": "padded", "image": "image_padded"},
    "a/b": "text",
}


def make_batch(count: int = 5, tree: Tree = TREE, first: int = 0) -> tio.Batch:
    numbers = range(first, first + count)
    return tio.parse_examples([record(tree, i) for i in numbers], specs_of(tree))


def is_as(tree: Tree, made: Any, flat: Any) -> None:
    """Checks that a nested batch or sample holds what a flat one does."""
    assert plain(made) == plain(nested_like(tree, flat))


@given(trees, st.integers(1, 5))
def test_nested_is_flat_in_dicts(tree: Tree, count: int) -> None:
    records = [record(tree, i) for i in range(count)]
    schema = tio.Schema(specs_of(tree))
    batch = tio.parse_examples(records, schema)
    flat = tio.parse_examples(records, flat_schema(tree))
    is_as(tree, batch, flat)
    assert list(batch) == list(batch.keys()) == list(tree)
    assert len(batch) == len(tree)
    assert plain(batch.lengths) == plain(flat.lengths)
    for again in (copy.copy(batch), pickle.loads(pickle.dumps(batch))):
        is_as(tree, again, flat)
        assert plain(again.lengths) == plain(flat.lengths)

    samples, flat_samples = batch.samples(), flat.samples()
    for sample, flat_sample in zip(samples, flat_samples, strict=True):
        is_as(tree, sample, flat_sample)
        is_as(tree, pickle.loads(pickle.dumps(sample)), flat_sample)
    is_as(tree, tio.parse_example(records[0], schema), flat_samples[0])
    is_as(tree, tio.collate(samples), tio.collate(flat_samples))
    is_as(tree, tio.pad_collate(batch), tio.pad_collate(flat))
    padded, flat_padded = tio.pad_collate(samples), tio.pad_collate(flat_samples)
    is_as(tree, padded, flat_padded)
    assert plain(padded.lengths) == plain(flat_padded.lengths)


def test_a_batch_is_like_a_nested_dict() -> None:
    batch = make_batch(3)
    assert list(batch) == ["id", "objects", "steps", "a/b"]
    assert type(batch["objects"]) is dict
    assert batch["objects"]["deep"]["name"].tolist() == [[], [b"w0"], [b"w0", b"w1"]]
    assert batch.get("objects") is batch["objects"]
    assert batch.get("objects/label", 7) == 7
    assert "objects" in batch
    assert "objects/label" not in batch
    for name in ("objects/label", "label", "objects/deep/name", "steps/padded\0lengths"):
        with pytest.raises(KeyError):
            batch[name]
    assert dict(batch).keys() == dict(**batch).keys() == batch.keys()
    assert all(value is batch[name] for name, value in zip(batch, batch.values(), strict=True))
    assert list(batch.lengths) == ["steps/padded", "steps/image"]
    assert repr(batch) == (
        "Batch({\n"
        "    'id': int64[3],\n"
        "    'objects': {\n"
        "        'label': Ragged int32[3, ...],\n"
        "        'deep': {\n"
        "            'name': Ragged bytes[3, ...],\n"
        "            'score': float32[3, 2],\n"
        "        },\n"
        "        'box': Ragged float32[3, ...],\n"
        "    },\n"
        "    'steps': {\n"
        "        'padded': int64[3, 2],\n"
        "        'image': uint8[3, 3, 3, 3],\n"
        "    },\n"
        "    'a/b': bytes[3],\n"
        "})"
    )


def test_as_tensordict() -> None:
    made = make_batch(3).to_tensordict()
    assert made.batch_size == torch.Size([3])
    assert isinstance(made["objects", "deep"], TensorDict)
    assert made["objects", "deep", "score"].tolist() == [[0.5, -1], [1.5, -1], [2.5, -1]]
    assert [row.tolist() for row in made["objects", "label"].unbind()] == [[], [0], [0, 1]]
    assert made["lengths", "steps/padded"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="must not have a column named 'lengths'"):
        make_batch(3, {"a": {"b": "padded"}, "lengths": {"c": "number"}}).to_tensordict()
    inner = make_batch(3, {"a": {"lengths": "padded"}}).to_tensordict()
    assert inner["a", "lengths"].shape == (3, 2)


def test_as_keyed_jagged() -> None:
    keys, values, lengths = make_batch(3).to_keyed_jagged(["objects/label", "id"])
    assert keys == ["objects/label", "id"]
    assert values.tolist() == [0, 0, 1, 0, 1, 2]
    assert lengths.tolist() == [0, 1, 2, 1, 1, 1]
    with pytest.raises(KeyError):
        make_batch(3).to_keyed_jagged(["objects"])


# ---- collating ----


def test_dicts_that_a_transform_made() -> None:
    made = make_batch(3).samples()
    ragged = made[0].ragged
    samples: list[Any] = []
    for i, sample in enumerate(made):
        objects = {**sample["objects"], "new": {"number": i, "text": f"t{i}"}}
        del objects["box"]
        changed = sample | {"objects": objects, "meta": {"x": torch.full((2,), i)}}
        samples.append(tio.Sample(changed, ragged))
    batch = tio.collate(samples)
    assert list(batch["objects"]) == ["label", "deep", "new"]
    assert batch["objects"]["label"].tolist() == [[], [0], [0, 1]]
    assert batch["objects"]["new"]["number"].tolist() == [0, 1, 2]
    assert batch["objects"]["new"]["text"].tolist() == [b"t0", b"t1", b"t2"]
    assert batch["meta"]["x"].tolist() == [[0, 0], [1, 1], [2, 2]]
    # Names are flat wherever something is said of a feature; also where it was moved out of dicts.
    flattened = [{"objects/label": sample["objects"]["label"]} for sample in samples]
    hinted = [tio.Sample(flat, ragged) for flat in flattened]
    assert tio.collate(hinted)["objects/label"].tolist() == [[], [0], [0, 1]]


def test_other_mappings_become_dicts() -> None:
    assert type(tio.collate([{"a": MappingProxyType({"b": 1})}])["a"]) is dict


def _levels(count: int) -> dict[str, Any]:
    made: dict[str, Any] = {"x": 1}
    for _ in range(count - 1):
        made = {"x": made}
    return made


def test_invalid_dicts_in_samples() -> None:
    with pytest.raises(ValueError, match=r"must have the same keys, but some lack {'a/c'}"):
        tio.collate([{"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}])
    with pytest.raises(ValueError, match=r"must have the same keys"):
        tio.collate([{"a": {"b": 1}}, {"a": 1}])
    with pytest.raises(TypeError, match=r"of one kind .*, got dict and int"):
        tio.collate([{"a": 1}, {"a": {"b": 1}}])
    with pytest.raises(ValueError, match="the dict 'a/b' in the samples is empty"):
        tio.collate([{"a": {"b": {}}}])
    for samples in (
        [{"a/b": 1, "a": {"b": 2}}],
        [{"a": {"b/c": 1}}, {"a/b": {"c": 1}}],
    ):
        with pytest.raises(ValueError, match="two values in the samples have the same flat name"):
            tio.collate(samples)
    with pytest.raises(TypeError, match="keys of dicts in samples must be str"):
        tio.collate([{"a": {1: 2}}])
    deepest = tio.collate([_levels(100)])
    for _ in range(99):
        deepest = deepest["x"]
    assert deepest["x"].tolist() == [1]
    with pytest.raises(ValueError, match="is nested more than 100 levels deep"):
        tio.collate([_levels(101)])
    cycle: dict[str, Any] = {}
    cycle["x"] = cycle
    with pytest.raises(ValueError, match="nested more than 100 levels"):
        tio.collate([cycle])


# ---- loading ----


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.tfrecord"
    write_tfrecord(path, [record(TREE, i) for i in range(60)])
    return path


def test_lengths_and_groups_go_by_name(path: Path) -> None:
    schema = specs_of(TREE)
    dataset = tio.TFRecordDataset(path, schema, batch_tokens=12, length_key="objects/label")
    for batch in dataset:
        lengths = batch["objects"]["label"].lengths
        assert lengths.max() * len(lengths) <= 12
    whole = tio.TFRecordDataset(path, schema)
    parts = whole.split(0.5, 0.5, group_by=lambda sample: len(sample["objects"]["label"]))
    seen = [{len(sample["objects"]["label"]) for sample in part} for part in parts]
    assert seen[0].isdisjoint(seen[1])
    with pytest.raises(ValueError, match="'objects/label'"):
        tio.TFRecordDataset(path, schema, batch_tokens=12, length_key="label")


@pytest.mark.parametrize("window", [None, 2])
def test_steps(tmp_path: Path, window: int | None) -> None:
    """What is in dicts stays there, whether it has steps or not."""
    steps = {"obs": {"x": VARYING}, "y": VARYING}
    schema = tio.Schema({"id": tio.FixedLenFeature([], "int64"), "steps": steps})
    path = tmp_path / "a.tfrecord"
    episode = {"id": 1, "steps/obs/x": [5, 6, 7], "steps/y": [8, 9, 10]}
    write_tfrecord(path, [tio.encode_example(episode)])
    [batch] = tio.TFRecordDataset(path, schema, batch_size=4).steps(
        range(window) if window else None
    )
    assert list(batch) == ["id", "steps"]
    x = [5, 6, 7] if window is None else [[5, 6], [6, 7]]
    assert batch["steps"]["obs"]["x"].tolist() == x
    assert batch["steps"]["y"].tolist() == (torch.tensor(x) + 3).tolist()
    assert batch["id"].tolist() == [1] * len(x)


def test_errors_have_the_flat_name() -> None:
    with pytest.raises(tio.DecodeError) as caught:
        tio.parse_examples([record({"a": {"b": "text"}}, 0)], specs_of({"a": {"b": "number"}}))
    assert caught.value.feature == "a/b"
