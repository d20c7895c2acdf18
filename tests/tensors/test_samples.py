"""Tests of samples: rows of batches that are used like dicts."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Mapping
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten
from torch.utils.data import default_collate, default_convert

import torchrec_io as tio
from tests.support.every_kind import contents, make_batch
from tests.support.examples import example_of

NESTED: dict[str, Any] = {
    "id": tio.FixedLenFeature([], "int64"),
    "objects": {"label": tio.VarLenFeature("int64"), "box": {"x": tio.VarLenFeature("float32")}},
}


def nested_batch(count: int) -> tio.Batch:
    stored: list[dict[str, Any]] = [
        {"id": i, "objects/label": list(range(i)), "objects/box/x": [0.5] * i} for i in range(count)
    ]
    kinds = {"id": "int64", "objects/label": "int64", "objects/box/x": "float32"}
    return tio.parse_examples([tio.encode_example(each, kinds) for each in stored], NESTED)


def simple(count: int = 3) -> list[tio.Sample]:
    return tio.parse_examples(
        [example_of(x=[float(i)], y=[i, 2], z=[b"t%d" % i]) for i in range(count)],
        {
            "x": tio.FixedLenFeature([], "float32"),
            "y": tio.FixedLenFeature([2], "int16"),
            "z": tio.FixedLenFeature([], "string"),
        },
    ).samples()


# ---- like a dict ----


def test_reading() -> None:
    sample = simple()[1]
    assert isinstance(sample, Mapping)
    assert isinstance(sample, dict)
    assert list(sample) == list(sample.keys()) == ["x", "y", "z"]
    assert list(reversed(sample)) == ["z", "y", "x"]
    assert len(sample) == 3
    assert sample
    assert "x" in sample
    assert "w" not in sample
    assert sample["z"] == sample.get("z") == b"t1"
    assert sample.get("w", 5) == 5
    assert sample.get("w") is None
    with pytest.raises(KeyError):
        sample["w"]
    plain = {name: sample[name] for name in ("x", "y", "z")}
    for made in (dict(sample), {**sample}, dict(sample.items()), sample.copy(), sample | {}):
        assert type(made) is dict
        assert list(made) == list(plain)
        assert sample == made
    assert [*sample.values()][2] == b"t1"
    assert type({"a": 1} | sample) is dict
    assert list({"a": 1} | sample) == ["a", "x", "y", "z"]
    assert (sample | {"x": 7})["x"] == 7


@pytest.mark.parametrize(
    "change",
    [
        lambda sample: sample.__setitem__("x", 1),
        lambda sample: sample.__delitem__("x"),
        lambda sample: sample.update(x=1),
        lambda sample: sample.pop("x"),
        lambda sample: sample.popitem(),
        lambda sample: sample.setdefault("q", 1),
        lambda sample: sample.clear(),
        lambda sample: sample.__ior__({"x": 1}),
    ],
)
def test_it_cannot_be_changed(change: Callable[[Any], Any]) -> None:
    sample = simple()[1]
    with pytest.raises(TypeError, match="a Sample cannot be changed: make a dict of it"):
        change(sample)
    assert len(dict(sample)) == 3


def test_what_it_says_of_itself() -> None:
    assert repr(simple()[1]) == (
        "Sample({\n    'x': float32 1.0,\n    'y': int16[2],\n    'z': b't1',\n})"
    )
    assert "\n    'objects': {\n        'label': int64[2],\n" in repr(nested_batch(3).samples()[2])


# ---- equality ----


def test_equal_samples() -> None:
    first, second = make_batch(4).samples(), make_batch(4).samples()
    for one, other in zip(first, second, strict=True):
        assert one == other
        assert one == dict(other)
        assert dict(one) == other  # Python asks the sample first: its class is a subclass
    assert first[1] != first[2]
    assert nested_batch(3).samples() == nested_batch(3).samples()


@pytest.mark.parametrize(
    "other",
    [
        {"x": torch.tensor(1.0)},
        {"x": torch.tensor(1.0), "y": torch.tensor([1, 2])},  # another dtype
        {"x": torch.tensor([1.0]), "y": torch.tensor([1, 2], dtype=torch.int16)},
        {"x": torch.tensor(1.5), "y": torch.tensor([1, 2], dtype=torch.int16)},
        {"x": 1.0, "y": torch.tensor([1, 2], dtype=torch.int16)},
        {"w": torch.tensor(1.0), "y": torch.tensor([1, 2], dtype=torch.int16)},
    ],
)
def test_different_samples(other: dict[str, Any]) -> None:
    sample = tio.Sample({"x": torch.tensor(1.0), "y": torch.tensor([1, 2], dtype=torch.int16)})
    assert sample == tio.Sample(dict(sample))
    assert sample != other
    assert sample != tio.Sample(other)
    assert sample != 5


def test_samples_with_different_rows() -> None:
    schema = tio.Schema(
        {
            "rows": tio.RaggedFeature(
                "int64", partitions=[tio.RaggedFeature.RowLengths("lengths")]
            ),
            "sparse": tio.SparseFeature("at", "values", "int64", 9),
        }
    )
    lengths, values = [2, 1], [7, 8, 9]

    def sample(**changed: list[int]) -> Any:
        stored = {"rows": values, "lengths": lengths, "at": [1, 4], "values": [5, 6], **changed}
        return tio.parse_example(tio.encode_example(stored), schema)

    assert sample() == sample()
    assert sample() != sample(lengths=[1, 2])
    assert sample() != sample(rows=[7, 8, 8])
    assert sample() != sample(at=[1, 5])
    assert sample() != sample(values=[5, 7])


# ---- copies and pickles ----


def updated(sample: Any) -> Any:
    sample.update(dict(sample.items()))
    return sample


COPIES: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    lambda sample: pickle.loads(pickle.dumps(sample)),
    lambda sample: pickle.loads(pickle.dumps(copy.copy(sample))),
    lambda sample: pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(sample)))),
    lambda sample: tree_map(lambda value: value, sample),
    default_convert,
    lambda sample: updated(copy.copy(sample)),  # as PyTorch's pin_memory does
]


@pytest.mark.parametrize("make", COPIES)
def test_copies_are_equal_and_are_joined_alike(make: Callable[[Any], Any]) -> None:
    batch = make_batch(4)
    copies = [make(sample) for sample in batch.samples()]
    assert all(type(each) is tio.Sample for each in copies)
    assert copies == batch.samples()
    assert contents(tio.collate(copies)) == contents(batch)
    mixed = [*copies[:2], *batch.samples()[2:]]
    assert contents(tio.collate(mixed)) == contents(batch)


def test_a_pickle_is_the_row_alone() -> None:
    stored = [example_of(x=[float(i)] * 1000) for i in range(50)]
    batch = tio.parse_examples(stored, {"x": tio.FixedLenFeature([1000], "float32")})
    sample = batch.samples()[20]
    forms = [sample, copy.copy(sample), tree_map(lambda value: value, sample)]
    for form in forms:
        assert 4000 < len(pickle.dumps(form)) < 4600
        assert len(ForkingPickler.dumps(form)) > 4000  # no file is opened for a Tensor
    buffer = io.BytesIO()
    torch.save(sample, buffer)
    assert buffer.tell() < 10_000


# ---- pytrees ----


def test_pytrees() -> None:
    sample = nested_batch(4).samples()[3]
    leaves, spec = tree_flatten(sample)
    assert [leaf.tolist() for leaf in leaves] == [3, [0, 1, 2], [0.5, 0.5, 0.5]]
    assert spec == tree_flatten(nested_batch(4).samples()[1])[1]
    doubled = tree_map(lambda value: value * 2, sample)
    assert type(doubled) is tio.Sample
    assert doubled["objects"]["box"]["x"].tolist() == [1.0, 1.0, 1.0]
    assert doubled.ragged == sample.ragged
    # As torchvision.transforms.v2 does: it replaces some leaves and keeps the others.
    again = tree_unflatten([leaf if leaf.dim() else leaf + 1 for leaf in leaves], spec)
    assert int(again["id"]) == 4
    assert again["objects"]["label"] is leaves[1]


# ---- joining ----


def test_changed_values_are_joined() -> None:
    """A Tensor that a function changes in place is a part of the batch."""
    samples = simple()
    samples[1]["y"].fill_(7)
    assert tio.collate(samples)["y"].tolist() == [[0, 2], [7, 7], [2, 2]]


@pytest.mark.parametrize("make", COPIES)
def test_changes_to_a_dict_in_a_sample_are_kept(make: Callable[[Any], Any]) -> None:
    samples = nested_batch(3).samples()
    for number, sample in enumerate(samples):
        sample["objects"]["box"]["x"] = torch.tensor([7.0] * number)
        sample["objects"]["new"] = number
    for each in (samples, [make(sample) for sample in samples]):
        joined = default_collate(each)
        assert joined["objects"]["box"]["x"].tolist() == [[], [7.0], [7.0, 7.0]]
        assert joined["objects"]["new"].tolist() == [0, 1, 2]
        assert joined["objects"]["label"].tolist() == [[], [0], [0, 1]]
    samples[2].leave()
    assert samples[2]["objects"]["new"] == 2


def test_mixed_lists() -> None:
    samples = simple()
    for mixed in ([samples[0], dict(samples[1])], [dict(samples[0]), samples[1]]):
        assert tio.collate(mixed)["y"].tolist() == [[0, 2], [1, 2]]
    ragged = nested_batch(3).samples()
    assert isinstance(tio.collate([dict(ragged[2]), ragged[1]])["objects"]["label"], tio.Ragged)
    with pytest.raises(ValueError, match="all samples must have the same keys"):
        tio.collate([samples[0], ragged[0]])
    with pytest.raises(TypeError, match="samples must be a list of dicts"):
        tio.collate([samples[0], torch.zeros(1)])  # type: ignore[list-item]


def test_other_schemas_with_the_same_names() -> None:
    one = tio.parse_example(example_of(x=[1]), {"x": tio.FixedLenFeature([], "int64")})
    other = tio.parse_example(example_of(x=[2]), {"x": tio.FixedLenFeature([], "int32")})
    batch = tio.collate([one, other])
    assert batch["x"].dtype == torch.int64
    assert batch["x"].tolist() == [1, 2]
    wide = tio.parse_example(example_of(x=[1, 2]), {"x": tio.FixedLenFeature([2], "int64")})
    assert [value.tolist() for value in tio.collate([one, wide])["x"]] == [1, [1, 2]]


def test_unvalidated_rows_of_rows_are_those_of_the_sample_alone() -> None:
    splits = [tio.RaggedFeature.RowSplits("outer"), tio.RaggedFeature.RowSplits("inner")]
    feature = tio.RaggedFeature("int64", "v", splits, validate=False)
    stored = [
        example_of(v=[3, 8, 2], outer=[0, 2, 5, 3], inner=[0, 6, 5, 3]),
        example_of(v=[7], outer=[0, 1], inner=[0, 1]),
    ]
    sample, other = tio.parse_examples(stored, {"x": feature}).samples()
    for each in (pickle.loads(pickle.dumps(sample)), *tio.collate([sample, other, sample])["x"]):
        rows = each["x"] if isinstance(each, tio.Sample) else each
        assert rows.tolist() in ([[[3, 8, 2], []], [[]], []], [[[7]]])
