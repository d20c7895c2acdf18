"""Run scenarios for a time each: ``python -m tests.sanitize FOLDER SECONDS [SCENARIO ...]``."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import processes, scenarios
from .files import Files, write_all

SCENARIOS: dict[str, Callable[[Files], None]] = {
    work.__name__: work
    for work in [
        scenarios.one_dataset,
        scenarios.many_datasets,
        scenarios.one_iterator,
        scenarios.left_halfway,
        scenarios.held_batches,
        scenarios.parsing,
        scenarios.every_column,
        scenarios.map_style,
        scenarios.indexes,
        scenarios.surveys,
        scenarios.selections,
        scenarios.writing,
        scenarios.damage,
        processes.forked_workers,
        processes.spawned_workers,
        processes.exits,
    ]
}


def main(folder: str, seconds: float, *names: str) -> None:
    """Run one round of each scenario, and more until the time is up."""
    files = write_all(Path(folder))
    for name in names or SCENARIOS:
        deadline = time.monotonic() + seconds
        rounds = 0
        while rounds == 0 or time.monotonic() < deadline:
            SCENARIOS[name](files)
            rounds += 1
        print(f"{name}: {rounds} rounds", flush=True)


if __name__ == "__main__":
    logging.getLogger("torchrec_io").setLevel(logging.ERROR)  # damage is skipped and logged
    main(sys.argv[1], float(sys.argv[2]), *sys.argv[3:])
