"""Rows of Ray Data, without a cluster, and their comparison with samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import torch
from ray.data.block import BlockAccessor

import torchrec_io as tio
from torchrec_io._records.opening import open_indexes
from torchrec_io._storage.paths import expand_paths
from torchrec_io.cluster.datasource import TFRecordDatasource
from torchrec_io.cluster.division import DividedRecords
from torchrec_io.cluster.record_tables import TableReader


def source_of(paths: list[str], schema: Any, **options: Any) -> TFRecordDatasource:
    """Return the source that ``read_tfrecords`` gives to Ray."""
    on_error = options.pop("on_error", "raise")
    checks = options.get("verify_crc", True)
    indexes, _ = open_indexes(expand_paths(paths), "auto", "auto", verify_crc=checks)
    reader = TableReader.of(schema, with_key=options.pop("with_key", False), **options)
    return TFRecordDatasource(DividedRecords(indexes), reader, on_error)


def tables_of(source: Any, parallelism: int = 1) -> list[pa.Table]:
    """Return the blocks of all read tasks, run in this process."""
    return [table for task in source.get_read_tasks(parallelism) for table in task()]


def rows_of(tables: list[pa.Table]) -> list[dict[str, Any]]:
    """Return rows as users of Ray Data see them."""
    rows: list[Any] = []
    for table in tables:
        rows += BlockAccessor.for_block(table).iter_rows(public_row_format=True)
    return rows


def assert_same(row: Any, value: Any, kind: pa.DataType) -> None:
    """Compare a value of a row with that of a sample, and their dtypes."""
    if isinstance(row, dict) and isinstance(value, tio.Sparse):
        assert row["indices"] == value.indices.tolist()
        assert_same(row["values"], value.values, kind.field("values").type)
    elif isinstance(row, dict):
        assert row["shape"] == list(value.shape)
        flat = value.flat() if isinstance(value, tio.BytesArray) else value.reshape(-1)
        assert_same(row["values"], flat, kind.field("values").type)
    elif isinstance(row, np.ndarray):
        assert row.shape == tuple(value.shape)
        assert str(row.dtype) == _dtype_of(value)
        assert row.tobytes() == _numpy(value).tobytes()
    elif isinstance(value, torch.Tensor):
        assert np.asarray(row, _numpy(value).dtype).tobytes() == _numpy(value).tobytes()
        assert _innermost(kind) == pa.from_numpy_dtype(_dtype_of(value))
    else:
        plain = value if isinstance(value, (bytes, list)) else value.tolist()
        assert row == plain


def _numpy(value: torch.Tensor) -> Any:
    return (value.float() if value.dtype == torch.bfloat16 else value).contiguous().numpy()


def _dtype_of(value: torch.Tensor) -> str:
    return str(_numpy(value).dtype)


def _innermost(kind: pa.DataType) -> pa.DataType:
    while pa.types.is_list(kind):
        kind = kind.value_type
    return kind
