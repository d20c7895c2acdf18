"""Fuzz targets in Python over their seeds and all inputs that are kept, without a fuzzer."""

from __future__ import annotations

import importlib

import pytest

from tests.fuzz import corpus


@pytest.mark.parametrize("target", corpus.python_targets())
def test_seeds_and_findings(target: str) -> None:
    module = importlib.import_module(f"tests.fuzz.python.fuzz_{target}")
    for data in module.seeds():
        module.check(data)
    for path in corpus.findings_of(target):
        module.check(path.read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("target", corpus.python_targets())
def test_kept_inputs(target: str) -> None:
    module = importlib.import_module(f"tests.fuzz.python.fuzz_{target}")
    for data in corpus.kept_inputs(target):
        module.check(data)
