"""Speed of parsing records in memory, compared with TensorFlow's parse ops on the same batch."""

from __future__ import annotations

import functools
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import torchrec_io as tio
from benchmarks.common import arguments, run_child, spread, table, tensorflow_python
from benchmarks.parse_cases import CASES, Case, Column, cpu_of, values_of, write_records


def schema_of(case: Case) -> tio.Schema:
    """Return the schema of a case."""
    specs = {name: _spec(column) for name, column in case.columns.items()}
    return tio.Schema(sequence=specs) if case.is_sequence else tio.Schema(specs)


def _spec(column: Column) -> Any:
    if column.spec in ("FixedLenFeature", "FixedLenSequenceFeature"):
        return getattr(tio, column.spec)(column.shape, column.dtype)
    if column.spec == "RaggedFeature":
        return tio.RaggedFeature(column.dtype, row_splits_dtype="int64")
    return tio.VarLenFeature(column.dtype)


def parse(case: Case, records: list[bytes], schema: tio.Schema) -> tio.Batch:
    """Parse records with this library."""
    if case.is_sequence:
        return tio.parse_sequence_examples(records, schema)
    return tio.parse_examples(records, schema)


def _encode(case: Case, name: str) -> list[bytes]:
    values = values_of(name)
    if case.is_sequence:
        return tio.encode_sequence_examples((None, lists) for lists in values)
    return tio.encode_examples(values)


def _arrays(batch: tio.Batch) -> dict[str, np.ndarray[Any, Any]]:
    arrays = {}
    for name, value in batch.items():
        rows, level = value, 0
        while isinstance(rows, tio.Ragged):
            arrays[f"{name} splits {level}"] = rows.offsets.numpy()
            rows, level = rows.values, level + 1
        arrays[name] = rows.numpy()
    return arrays


def _check_equal(batch: tio.Batch, path: Path) -> None:
    ours = _arrays(batch)
    with np.load(path) as theirs:
        assert set(ours) == set(theirs)
        for name, array in ours.items():
            assert array.dtype == theirs[name].dtype
            assert np.array_equal(array, theirs[name])


def main() -> None:
    """Print the table."""
    args = arguments(__doc__).parse_args()
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, case in CASES.items():
            schema = schema_of(case)
            records = _encode(case, name)
            paths = Path(folder, "records"), Path(folder, "arrays.npz")
            write_records(paths[0], records)
            theirs, ours = [], []
            for _ in range(args.rounds):
                peer = run_child("peer_parse", name, *map(str, paths), python=tensorflow_python())
                _check_equal(parse(case, records, schema), paths[1])
                theirs.append(peer)
                ours.append(cpu_of(functools.partial(parse, case, records, schema)))
            memory = run_child("parse_memory", name, str(paths[0]))
            ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
            middle = f"{statistics.median(theirs):.0f}"
            rows.append(
                [name, middle, spread(ours, 0), spread(ratios, 1), case.target, f"{memory:.2f}"]
            )
    headers = ["Batch of 256 records", "TensorFlow, µs", "torchrec_io, µs", "Ratio", "Target"]
    print(table([*headers, "Peak memory relative to the arena"], rows))


if __name__ == "__main__":
    main()
