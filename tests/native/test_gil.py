"""The native core with a free-threaded Python, which has ``sys._is_gil_enabled``."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys._is_gil_enabled = lambda: {enabled}
import torchrec_io as tio
print(tio.encode_example({{"a": 1}}))
"""


def run(*, enabled: bool) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM.format(enabled=enabled)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_core_is_refused_without_the_gil() -> None:
    ended = run(enabled=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        "ImportError: torchrec_io needs Python's global interpreter lock (GIL), which is off: "
        "unset PYTHON_GIL, or run Python without -X gil=0"
    )


def test_core_is_loaded_with_the_gil() -> None:
    ended = run(enabled=True)
    assert (ended.returncode, ended.stderr) == (0, "")
