"""The TensorFlow code of each tutorial runs and prints the results on the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import TfOracle
from tests.support.tutorials import Tutorial, make_fruit, read_tutorials


@pytest.mark.parametrize("page", read_tutorials(), ids=lambda page: page.path.stem)
def test_tensorflow_side_runs(page: Tutorial, tmp_path: Path, tf_oracle: TfOracle) -> None:
    make_fruit(tmp_path)
    answer = tf_oracle.ask(op="run", folder=str(tmp_path), code=page.theirs)
    assert answer["error"] is None, answer["error"]


@pytest.mark.parametrize("page", read_tutorials(), ids=lambda page: page.path.stem)
def test_names_exist_in_tensorflow(page: Tutorial, tmp_path: Path, tf_oracle: TfOracle) -> None:
    names = sorted(set(re.findall(r"\btf\.\w+(?:\.\w+)*", page.text)))
    there = [name for name in names if not name.startswith("tf.contrib.")]  # removed in 2.0
    assert len(there) > 5
    answer = tf_oracle.ask(op="run", folder=str(tmp_path), code=there)
    assert answer["error"] is None, answer["error"]
