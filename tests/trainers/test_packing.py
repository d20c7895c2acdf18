"""Packed rows in the loops of other libraries; see packing_loops.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_packed_rows() -> None:
    """In a process of its own: this library has other warnings where Lightning is loaded."""
    loops = Path(__file__).with_name("packing_loops.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(loops)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
