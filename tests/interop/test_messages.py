"""The package's messages and TensorFlow's in one process."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.conftest import ROOT, TESTS


@pytest.mark.slow
@pytest.mark.parametrize("first", ["tensorflow", "torchrec_io"])
def test_both_families_exchange_bytes_in_one_process(tf_python: str, first: str) -> None:
    script, golden = TESTS / "interop" / "tf_messages.py", TESTS / "data" / "golden"
    done = subprocess.run(
        [tf_python, str(script), str(golden), first],
        check=False, capture_output=True, text=True, timeout=100,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    counts = re.fullmatch(r"(\d+) read, (\d+) refused\n", done.stdout)
    assert counts, done.stderr
    read, refused = map(int, counts.groups())
    assert read > 100
    assert refused > 0
