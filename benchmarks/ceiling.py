"""How fast records can be read at most: ``read()``, CRC and one copy, written in C."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")


@cache
def _program() -> str:
    folder = tempfile.mkdtemp(prefix="ceiling-")
    program = os.path.join(folder, "ceiling")
    compiler = os.environ.get("CC", "cc")
    flags = ["-O3", "-march=native", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, "-o", program, str(_SOURCE)], check=True)
    return program


def bytes_per_second(files: Sequence[str]) -> float:
    """Bytes of files, frames included, that the C program reads in a second of wall time."""
    done = subprocess.run([_program(), *files], check=True, capture_output=True, text=True)
    return float(done.stdout)
