"""Runner of all measurements, or of the named ones, in order."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_MEASUREMENTS = {
    "side_by_side": "Side by side with peers",
    "parse": "Parsing",
    "encode": "Encoding",
    "write": "Writing",
    "index": "Building an index",
    "infer": "Inferring a schema",
    "memory": "Memory",
    "epochs": "Memory over many epochs",
    "first_batch": "Time to the first batch",
    "transfer": "From worker processes",
    "samples": "Samples",
    "packing": "Packing sequences",
    "skipping": "Skipping records",
    "stats": "Statistics",
    "device": "To a GPU",
    "tfds": "TFDS directories",
    "rlds_or_convert": "RLDS episodes and a conversion",
    "compressed": "Compressed files",
    "remote": "Remote objects",
    "scale": "Scale",
}


def _run(module: str, *options: str) -> None:
    command = [sys.executable, "-m", f"benchmarks.{module}", *options]
    done = subprocess.run(command, cwd=_ROOT, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)


def main() -> None:
    """Run the measurements and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measurements", nargs="*", default=list(_MEASUREMENTS), help="default: all")
    parser.add_argument("--scale", help="size of the data files; default: that of each measurement")
    parser.add_argument("--rounds", help="default: that of each measurement")
    args = parser.parse_args()
    options = []
    for name in ("scale", "rounds"):
        if value := getattr(args, name):
            options += [f"--{name}", value]
    _run("machine")
    for measurement in args.measurements:
        print(f"\n### {_MEASUREMENTS[measurement]}\n", flush=True)
        _run(measurement, *options)


if __name__ == "__main__":
    main()
