"""Memory of one parse, in a process of its own: prints its peak over the arena's size."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torchrec_io as tio
from benchmarks.common import memory_of
from benchmarks.parse import parse, schema_of
from benchmarks.parse_cases import CASES, read_records


def main() -> None:
    """Takes a case, and the file of its records, which are repeated to make a large batch."""
    name, path = sys.argv[1:]
    case = CASES[name]
    schema = schema_of(case)
    records = read_records(Path(path))
    parse(case, records[:2], schema)  # what is loaded on first use is no memory of the parse
    records = [bytes(bytearray(record)) for _ in range(200) for record in records]
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = memory_of()["VmRSS"]
    batch: tio.Batch = parse(case, records, schema)
    print(json.dumps((memory_of()["VmHWM"] - before) / batch.arena.numel()))


if __name__ == "__main__":
    main()
