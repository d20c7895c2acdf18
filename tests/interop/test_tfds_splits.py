"""The stored results of TFDS's splits match TFDS."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.conftest import TESTS


def test_stored_answers_are_those_of_tfds(tf_python: str, tmp_path: Path) -> None:
    script = TESTS / "data" / "make_tfds_splits.py"
    made = subprocess.run(
        [tf_python, str(script), str(tmp_path / "splits.json")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    committed = TESTS / "data" / "tfds_splits.json"
    assert (tmp_path / "splits.json").read_text() == committed.read_text()
