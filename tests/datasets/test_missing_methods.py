"""Methods that datasets of other libraries have: the error names what to write instead."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.datasets import SCHEMA, write_files


@pytest.fixture
def path(tmp_path: Path) -> str:
    return write_files(tmp_path, [5])[0]


def kinds_of(path: str) -> dict[str, Any]:
    dataset = tio.TFRecordDataset(path, SCHEMA)
    return {
        "TFRecordDataset": dataset,
        "TextLineDataset": tio.TextLineDataset(path),
        "TFRecordStream": tio.TFRecordStream(path),
        "MixedDataset": tio.mix([dataset], weights=[1], stop="endless"),
        "TFRecordMapDataset": tio.TFRecordMapDataset(path),
    }


@pytest.mark.parametrize(
    ("kind", "method", "instead"),
    [
        ("TFRecordDataset", "map", "pass transform=function"),
        ("TextLineDataset", "filter", "use where(predicate)"),
        ("TFRecordStream", "batch", "pass batch_size=n"),
        ("MixedDataset", "shuffle", "pass shuffle=True"),
        ("TFRecordMapDataset", "batch", "pass batch_size=n"),
        ("TFRecordDataset", "repeat", "pass epochs=n"),
        ("TextLineDataset", "skip", "use select(numbers)"),
        ("TFRecordStream", "shard", "each rank and each DataLoader worker gets its own share"),
        ("MixedDataset", "concatenate", "pass the files of both as one list"),
        ("TFRecordMapDataset", "prefetch", "batches are loaded ahead"),
        ("TFRecordDataset", "cache", "pass cache=tio.BlockCache("),
    ],
)
def test_the_error_names_another_way(path: str, kind: str, method: str, instead: str) -> None:
    dataset = kinds_of(path)[kind]
    with pytest.raises(AttributeError) as raised:
        getattr(dataset, method)
    assert str(raised.value).startswith(f"{kind} has no {method}(): {instead}")
    assert not hasattr(dataset, method)
    assert method not in dir(dataset)


def test_records_by_number(path: str) -> None:
    for dataset in (tio.TFRecordDataset(path, SCHEMA), tio.TFRecordStream(path)):
        with pytest.raises(TypeError, match=r"TFRecordMapDataset\(paths, schema\)\[number\]"):
            dataset[0]


def test_all_else_is_as_usual(path: str) -> None:
    for kind, dataset in kinds_of(path).items():
        with pytest.raises(AttributeError, match=f"^'{kind}' object has no attribute 'nothing'$"):
            dataset.nothing  # noqa: B018
        for other in (copy.copy(dataset), pickle.loads(pickle.dumps(dataset))):
            assert not hasattr(other, "map")
            assert repr(other) == repr(dataset)


def test_an_error_in_a_property_is_not_hidden(path: str) -> None:
    class Broken(tio.TFRecordDataset):
        @property
        def value(self) -> int:
            nothing: Any = None
            return int(nothing.inner)

    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'inner'"):
        Broken(path).value  # noqa: B018
