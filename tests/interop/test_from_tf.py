"""Schemas of TensorFlow's spec objects, in a Python with TensorFlow and without torch."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from tests.conftest import ROOT, TESTS

REFUSED = {
    "unknown_rank": "shape must be a list of integers",
    "unknown_size": "shape must be a list of non-negative integers",
    "dtype": "dtype must be one of",
    "default_size": "default_value must have 3 values",
    "default_kind": "must be integers for int64",
    "not_missing": "needs allow_missing=True",
    "no_spec": "must be one of torchrec_io or tf.io",
    "a_class": "must be one of torchrec_io or tf.io",
}


@pytest.fixture(scope="module")
def answer(tf_python: str) -> Any:
    """Run ``tf_specs.py`` and return its output."""
    done = subprocess.run(
        [tf_python, str(TESTS / "interop" / "tf_specs.py")],
        check=False, capture_output=True, text=True, timeout=100,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_specs(answer: Any) -> None:
    assert answer["wrong"] == {}


def test_rejected_specs(answer: Any) -> None:
    assert answer["refused"].keys() == REFUSED.keys()
    for name, reason in REFUSED.items():
        assert reason in answer["refused"][name]


def test_neither_torch_nor_the_native_core_is_loaded(answer: Any) -> None:
    assert answer["loaded"] == []
