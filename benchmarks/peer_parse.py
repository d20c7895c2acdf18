"""TensorFlow's side of ``parse.py``. Needs a Python that has TensorFlow.

Parses the records of a file, writes the arrays of all columns to another file for comparison, and
prints the CPU microseconds per batch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.parse_cases import CASES, Case, Column, cpu_of, read_records


def _spec(column: Column) -> Any:
    dtype = tf.as_dtype(column.dtype)
    if column.spec in ("FixedLenFeature", "FixedLenSequenceFeature"):
        return getattr(tf.io, column.spec)(column.shape, dtype)
    if column.spec == "RaggedFeature":
        return tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64)
    return tf.io.VarLenFeature(dtype)


def _parse(case: Case, records: Any) -> dict[str, Any]:
    specs = {name: _spec(column) for name, column in case.columns.items()}
    if not case.is_sequence:
        found: dict[str, Any] = tf.io.parse_example(records, specs)
        return found
    _, lists, _ = tf.io.parse_sequence_example(records, sequence_features=specs)
    return dict(lists)


def _arrays(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, tf.SparseTensor):
        # Values and row lengths describe the tensor completely.
        rows = np.bincount(value.indices[:, 0], minlength=int(value.dense_shape[0]))
        return {name: value.values, f"{name} splits 0": np.concatenate(([0], np.cumsum(rows)))}
    arrays = {}
    level = 0
    while isinstance(value, tf.RaggedTensor):
        arrays[f"{name} splits {level}"] = value.row_splits
        value, level = value.values, level + 1
    return {**arrays, name: value}


def main() -> None:
    """Parse and measure. Arguments: case, file of its records, file to write arrays to."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    name, records_path, arrays_path = sys.argv[1:]
    case = CASES[name]
    records = tf.constant(read_records(Path(records_path)))
    arrays: dict[str, Any] = {}
    for key, value in _parse(case, records).items():
        arrays |= _arrays(key, value)
    found: dict[str, Any] = {key: np.asarray(value) for key, value in arrays.items()}
    np.savez(arrays_path, **found)
    print(json.dumps(cpu_of(lambda: _parse(case, records))))


if __name__ == "__main__":
    main()
