"""The golden TFDS directories match those that tensorflow-datasets writes and reads now."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import TESTS

COMMITTED = TESTS / "data" / "tfds"


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
def test_tfds_writes_the_golden_directories(tf_python: str, tmp_path: Path) -> None:
    script = TESTS / "data" / "make_tfds_golden.py"
    made = subprocess.run(
        [tf_python, str(script), str(tmp_path / "tfds")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    written, committed = files_below(tmp_path / "tfds"), files_below(COMMITTED)
    assert sorted(written) == sorted(committed)
    assert [name for name in committed if written[name] != committed[name]] == []
