"""Speed of inspecting records for a schema, compared with plain Python."""

from __future__ import annotations

import statistics
import time
from itertools import islice

from benchmarks.common import arguments, ensure_data, spread, table
from benchmarks.survey_model import comparable, survey_model
from benchmarks.workloads import WORKLOADS
from torchrec_io import Schema
from torchrec_io._records.record_block import RecordList
from torchrec_io._records.sequential import iter_records
from torchrec_io.inspection.surveyor import Surveyor

_WORKLOADS = ("tabular", "ragged", "mnist")
# Plain Python takes up to a millisecond for each.
_RECORDS = 2000
_TARGET = 100


def _cpu_seconds(records: RecordList) -> float:
    began = time.process_time()
    Surveyor().add(records)
    return time.process_time() - began


def _model_seconds(records: RecordList) -> float:
    began = time.process_time()
    survey_model(records.records)
    return time.process_time() - began


def main() -> None:
    """Print the table."""
    args = arguments(__doc__).parse_args()
    ensure_data(_WORKLOADS, args.scale)
    rows = []
    for name in _WORKLOADS:
        files = WORKLOADS[name].files
        records = RecordList.of(data for _, data in islice(iter_records(files[0]), _RECORDS))
        surveyor = Surveyor()
        surveyor.add(records)
        expected = comparable(survey_model(records.records)[0])
        assert comparable(surveyor.result()) == expected
        native, model = [], []
        for _ in range(args.rounds):
            native += [_cpu_seconds(records) for _ in range(10)]
            model.append(_model_seconds(records))
        began = time.perf_counter()
        inspected = Schema.infer(files, None).inspected
        seconds = time.perf_counter() - began
        assert inspected is not None
        ratio = statistics.median(model) / statistics.median(native)
        rows.append(
            [
                f"`{name}`",
                spread([each / len(records) * 1e6 for each in model]),
                spread([each / len(records) * 1e6 for each in native]),
                f"{ratio:,.0f}",
                _TARGET,
                f"{inspected.records / seconds / 1e6:.2f}",
            ]
        )
    headers = [
        "Workload",
        "Plain Python, µs per record",
        "Native, µs per record",
        "Ratio",
        "Target",
        "`Schema.infer` of all files, million records/s",
    ]
    print(table(headers, rows))


if __name__ == "__main__":
    main()
