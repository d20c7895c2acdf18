"""Files that write tasks make, without a cluster."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import torchrec_io as tio
from tests.cluster.rows import source_of, tables_of
from tests.support.examples import example_of
from tests.support.images import encoded, smooth
from tests.support.tfrecord import write_tfrecord
from torchrec_io._records.sequential import iter_records
from torchrec_io._storage.location import Location
from torchrec_io.cluster.datasink import RowEncoder, TFRecordDatasink
from torchrec_io.cluster.record_tables import BYTES_COLUMN, NUMBER_COLUMN
from torchrec_io.cluster.shard_folder import ShardFolder, TaskErrors, WrittenShard
from torchrec_io.cluster.shuffling import _sorted_records
from torchrec_io.convert.arrow_rows import ColumnTypes


def written(folder: Path, tables: list[Any]) -> list[bytes]:
    """Return the records that a task makes of tables."""
    with ShardFolder.beside(Location.of(folder / "out"), None, index=False) as parts:
        sink = TFRecordDatasink(parts, RowEncoder("out", ColumnTypes({}, frozenset())))
        part = sink.write(tables, SimpleNamespace(task_idx=3))
        records = [data for _, data in iter_records(parts.file_of(part.number))]
        assert part.records == len(records)
    assert not [name for name in os.listdir(folder) if name.startswith(".")]
    return records


def test_the_values_of_all_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "number": [1, None],
            "flag": [True, False],
            "text": ["ä", ""],
            "floats": pa.array([[1.5], []], pa.list_(pa.float64())),
            "steps": [[[1], [2, 3]], []],
            "nothing": pa.nulls(2),
        }
    )
    assert written(tmp_path, [table]) == tio.encode_sequence_examples(
        [
            ({"number": 1, "flag": 1, "text": "ä", "floats": [1.5]}, {"steps": [[1], [2, 3]]}),
            ({"flag": 0, "text": "", "floats": []}, {"steps": []}),
        ],
        {"floats": "float32", "steps": "int64"},
    )


def test_tensors_become_their_values(tmp_path: Path) -> None:
    pngs = [encoded(smooth(2 + i, 3, seed=i)) for i in range(2)]
    records = [example_of(image=[png], pair=[i, 2, 3, 4]) for i, png in enumerate(pngs)]
    path = write_tfrecord(tmp_path / "a", records)
    schema = {
        "image": tio.ImageFeature(layout="HWC"),
        "pair": tio.FixedLenFeature([2, 2], "int64"),
    }
    found = written(tmp_path, tables_of(source_of([str(path)], schema)))
    assert found == tio.encode_examples(
        [{"image": smooth(2 + i, 3, seed=i), "pair": [i, 2, 3, 4]} for i in range(2)]
    )


def test_blocks_of_pandas_and_empty_ones(tmp_path: Path) -> None:
    blocks = [pd.DataFrame({"x": [1, 2]}), pd.DataFrame({"x": []}), pa.table({"x": [3]})]
    assert written(tmp_path, blocks) == tio.encode_examples([{"x": x} for x in (1, 2, 3)])
    assert written(tmp_path, []) == []


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([{"a": 1}]), "an Example cannot store a column of type struct"),
        (pa.array([[1, None]]), "row 0 of its task: an Example cannot store null in a list"),
    ],
)
def test_values_that_an_example_cannot_store(tmp_path: Path, column: Any, reason: str) -> None:
    with pytest.raises(tio.ConversionError, match=reason) as raised:
        written(tmp_path, [pa.table({"x": column})])
    assert raised.value.feature == "x"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_machines_do_not_share_is_an_error(tmp_path: Path) -> None:
    elsewhere = ShardFolder(Location.of(tmp_path / "elsewhere"), None, index=False)
    with pytest.raises(FileNotFoundError):
        elsewhere.write(0, [b"record"])
    with pytest.raises(FileNotFoundError, match="write to a folder that all machines share"):
        elsewhere.commit(
            [WrittenShard(0, 1, TaskErrors())], Location.of(tmp_path / "out"), force=True
        )


@pytest.mark.parametrize("positions", [[0, 2, 2], [3, 1, 2]])
def test_a_record_that_is_sorted_twice_is_an_error(positions: list[int]) -> None:
    tables = [
        pa.table({NUMBER_COLUMN: part, BYTES_COLUMN: [b"x"] * len(part)})
        for part in (positions[:2], positions[2:])
    ]
    with pytest.raises(RuntimeError, match="Ray Data has not sorted the records"):
        list(_sorted_records(tables, {}))
