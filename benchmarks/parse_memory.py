"""Peak memory of one parse relative to the size of the arena, in its own process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torchrec_io as tio
from benchmarks.common import memory_of
from benchmarks.parse import parse, schema_of
from benchmarks.parse_cases import CASES, read_records


def main() -> None:
    """Parse a large batch: the records of a file, repeated. Arguments: case, file of records."""
    name, path = sys.argv[1:]
    case = CASES[name]
    schema = schema_of(case)
    records = read_records(Path(path))
    parse(case, records[:2], schema)  # memory of lazy imports does not count
    records = [bytes(bytearray(record)) for _ in range(200) for record in records]
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = memory_of()["VmRSS"]
    batch: tio.Batch = parse(case, records, schema)
    print(json.dumps((memory_of()["VmHWM"] - before) / batch.arena.numel()))


if __name__ == "__main__":
    main()
