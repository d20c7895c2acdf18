"""The golden TFDS directories match those that tensorflow-datasets writes and reads now."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT


def files_below(folder: Path) -> dict[str, Any]:
    return {
        path.relative_to(folder).as_posix(): contents(path)
        for path in folder.rglob("*")
        if path.is_file()
    }


def contents(path: Path) -> Any:
    """Return the bytes of a file, or the arrays of a compressed one."""
    if path.suffix != ".npz":
        return path.read_bytes()
    with np.load(path) as arrays:
        return {name: (array.dtype, array.tolist()) for name, array in arrays.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "folder"),
    [
        ("tests/data/make_tfds_golden.py", "tests/data/tfds"),
        ("tests/data/make_robots_golden.py", "tests/data/robots"),
        ("examples/data/make_robots.py", "examples/data/robots"),
    ],
)
def test_tfds_writes_the_golden_directories(
    script: str, folder: str, tf_python: str, tmp_path: Path
) -> None:
    made = subprocess.run(
        [tf_python, str(ROOT / script), str(tmp_path / "made")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    written, committed = files_below(tmp_path / "made"), files_below(ROOT / folder)
    assert sorted(written) == sorted(committed)
    assert [name for name in committed if written[name] != committed[name]] == []
