"""The examples run, and check themselves; `make demo` runs train_digits.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.conftest import ROOT

EXAMPLES = ROOT / "examples"


def run(*arguments: object) -> str:
    """What a Python with these arguments prints; it has to end well."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_train_ddp() -> None:
    options = ("--standalone", "--nproc-per-node=2")
    printed = run("-m", "torch.distributed.run", *options, EXAMPLES / "train_ddp.py")
    begins = "2 ranks of 23 steps: 1437 records, 1 of them again; "
    assert re.fullmatch(re.escape(begins) + r"test accuracy 0\.9\d{3}\n", printed)
