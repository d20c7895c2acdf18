"""Ray Data's side of ``cluster.py``: ``ray.data.read_tfrecords``. Needs Ray and TensorFlow.

Prints the CPU and wall seconds of each pass, the number of records, and a digest of some values.
"""

from __future__ import annotations

import json
import sys

import ray.data

from benchmarks.ray_session import measure_reads


def main() -> None:
    """Read files. Arguments: number of passes, paths."""
    rounds, *paths = sys.argv[1:]

    def read(files: list[str]) -> ray.data.Dataset:
        return ray.data.read_tfrecords(files, file_extensions=None, shuffle=None)

    print(json.dumps(measure_reads(read, paths, int(rounds))))


if __name__ == "__main__":
    main()
