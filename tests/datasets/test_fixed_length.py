"""FixedLengthRecordDataset: records as bytes and as fields, with files of CIFAR-10 and MNIST."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio

CIFAR = {"label": tio.RawFeature("uint8", []), "image": tio.RawFeature("uint8", [3, 32, 32])}


@pytest.fixture
def cifar(tmp_path: Path) -> tuple[Path, Any]:
    """Write a file in CIFAR-10's binary format, and return it with its rows."""
    rows = np.random.default_rng(0).integers(0, 256, (23, 3073), np.uint8)
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(rows.tobytes())
    return path, torch.from_numpy(rows)


@pytest.mark.parametrize("shuffle", [False, True, tio.Shuffle(block=4, window=8)], ids=str)
def test_cifar(cifar: tuple[Path, Any], shuffle: Any) -> None:
    path, rows = cifar
    dataset = tio.FixedLengthRecordDataset(
        path, 3073, CIFAR, batch_size=5, shuffle=shuffle, with_key=True
    )
    assert isinstance(dataset.schema, tio.Schema)
    seen = []
    for keys, batch in dataset:
        numbers = [int(key.removeprefix(f"{path}:")) for key in keys]
        assert torch.equal(batch["label"], rows[numbers, 0])
        assert torch.equal(batch["image"], rows[numbers, 1:].reshape(-1, 3, 32, 32))
        seen += numbers
    assert sorted(seen) == list(range(23))
    sample = next(iter(dataset.replace(batch_size=None, with_key=False, shuffle=False)))
    assert sample["label"] == rows[0, 0]
    assert sample["image"].shape == (3, 32, 32)


FIELD = st.tuples(
    st.sampled_from(["uint8", "int16", "int32", "float32", "float64", "int64", "complex64"]),
    st.lists(st.integers(0, 3), max_size=2),
    st.booleans(),
)


@given(fields=st.lists(FIELD, min_size=1, max_size=4), count=st.integers(0, 5), data=st.binary())
def test_fields_match_numpy(tmp_path: Path, fields: list[Any], count: int, data: bytes) -> None:
    dtype = np.dtype(
        [
            (f"f{i}", np.dtype(name).newbyteorder("<" if little else ">"), tuple(shape))
            for i, (name, shape, little) in enumerate(fields)
        ]
    )
    if dtype.itemsize == 0:
        return
    size = dtype.itemsize * count
    path = tmp_path / "x"
    path.write_bytes((data * (size + 1) + bytes(size))[:size])
    features = {
        f"f{i}": tio.RawFeature(name, shape, little_endian=little)
        for i, (name, shape, little) in enumerate(fields)
    }
    dataset = tio.FixedLengthRecordDataset(
        path, dtype.itemsize, features, batch_size=2, num_threads=1
    )
    batches = list(dataset)
    wanted = np.frombuffer(path.read_bytes(), dtype)
    assert sum(len(batch["f0"]) for batch in batches) == count
    for i in range(len(fields) if count else 0):
        found = np.concatenate([batch[f"f{i}"].numpy() for batch in batches])
        # Compare bytes, because NaNs are not equal.
        assert found.tobytes() == wanted[f"f{i}"].astype(found.dtype).tobytes()
        assert found.shape == wanted[f"f{i}"].shape


def test_invalid_fields_are_reported(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\1\0\2\1\0\1")
    schema = {
        "flag": tio.RawFeature("bool", []),
        "number": tio.RawFeature("uint8", [], valid_range=(0, 0)),
    }
    found: list[tio.TorchRecIOError] = []
    dataset = tio.FixedLengthRecordDataset(
        tmp_path / "x", 2, schema, batch_size=3, on_error=found.append
    )
    [batch] = list(dataset)
    assert batch["flag"].tolist() == [True]
    assert [(error.record, error.offset, error.feature) for error in found] == [
        (1, 2, "flag"),
        (2, 4, "number"),
    ]
    assert "neither 0 nor 1" in found[0].reason


def test_bytes_left_over(cifar: tuple[Path, Any]) -> None:
    path, rows = cifar
    with path.open("ab") as file:
        file.write(b"xyz")
    with pytest.raises(tio.TruncatedFileError, match="3 bytes left over") as caught:
        tio.FixedLengthRecordDataset(path, 3073)
    assert (caught.value.path, caught.value.record) == (str(path), 23)
    skipping = tio.FixedLengthRecordDataset(path, 3073, CIFAR, batch_size=30, on_error="skip")
    assert skipping.skipped == 1
    assert torch.equal(next(iter(skipping))["label"], rows[:, 0])


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"label": CIFAR["label"]}, r"must add up to 3073 .*, got 1 \('label' 1\)"),
        ({**CIFAR, "more": CIFAR["label"]}, "must add up to 3073 bytes, .*, got 3074"),
        ({"x": tio.RawFeature("uint8", shape_key="y")}, "must be a RawFeature with a shape"),
        ({"x": tio.FixedLenFeature([], "string")}, "must be a RawFeature with a shape"),
        ({}, "at least one feature"),
    ],
)
def test_schemas_that_do_not_fit(cifar: tuple[Path, Any], schema: Any, reason: str) -> None:
    with pytest.raises(tio.SchemaError, match=reason):
        tio.FixedLengthRecordDataset(cifar[0], 3073, schema)


def test_other_schemas(cifar: tuple[Path, Any]) -> None:
    path, rows = cifar
    assert list(tio.FixedLengthRecordDataset(path, 3073)) == [row.numpy().tobytes() for row in rows]
    assert list(tio.FixedLengthRecordDataset(path, 3073, len)) == [3073] * 23
    with pytest.raises(ValueError, match="schema must be"):
        tio.FixedLengthRecordDataset(path, 3073, 3)  # type: ignore[arg-type]
