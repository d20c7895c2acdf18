"""Dependence of labels on the position of records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from torchrec_io.reports.content import LabelOrder
from torchrec_io.reports.label_order import LabelOrderStatistics


def order_of(files: list[list[Any]], step: int = 1, preview: list[Any] | None = None) -> LabelOrder:
    labels = [label for file in files for label in file]
    statistics = LabelOrderStatistics(np.cumsum([len(file) for file in files]), preview or labels)
    for begin in range(0, len(labels), 500):
        numbers = np.arange(begin, min(begin + 500, len(labels)))
        numbers = numbers[numbers // 2 % step == 0]
        statistics.add(numbers, [labels[number] for number in numbers.tolist()])
    return statistics.result("label")


def mixed(classes: int, size: int, seed: int = 0) -> list[int]:
    found: list[int] = np.random.default_rng(seed).integers(0, classes, size).tolist()
    return found


@pytest.mark.parametrize("step", [1, 5])
@pytest.mark.parametrize("classes", [2, 10, 300])
def test_mixed_data(classes: int, step: int) -> None:
    found = order_of([mixed(classes, 2000, seed) for seed in range(8)], step)
    assert not found.is_sorted
    assert found.classes == classes
    assert "already mixed" in found.verdict
    assert found.shuffle == "10_000"
    for strength in (found.between_files, found.within_files, found.neighbors):
        assert strength is not None
        assert strength < 0.05


@pytest.mark.parametrize("step", [1, 5])
def test_a_class_for_each_file(step: int) -> None:
    found = order_of([[label] * 2000 for label in range(8)], step)
    assert found.is_sorted
    assert found.between_files == pytest.approx(1, abs=0.01)
    assert found.within_files == 0
    assert found.neighbors == pytest.approx(1, abs=0.01)
    assert "different files have different labels" in found.verdict
    assert found.shuffle == "True"


def test_sorted_within_files() -> None:
    found = order_of([sorted(mixed(5, 2000, seed)) for seed in range(4)])
    assert (found.between_files or 0) < 0.05
    assert (found.within_files or 0) > 0.8
    assert "from the start of a file to its end" in found.verdict


def test_clumps_of_equal_labels() -> None:
    labels = np.repeat(mixed(10, 800), 10).tolist()
    found = order_of([labels[:4000], labels[4000:]], step=5)
    assert (found.between_files or 0) < 0.1
    assert (found.neighbors or 0) > 0.7
    assert "side by side" in found.verdict


def test_numbers_are_divided_into_intervals() -> None:
    values = np.linspace(0, 1, 8000).tolist()
    found = order_of([values[:4000], values[4000:]])
    assert found.classes == 16
    assert (found.between_files or 0) > 0.9


def test_many_classes_share_a_row() -> None:
    assert order_of([[f"c{number}" for number in range(3000)]]).classes == 512


def test_one_file_and_one_class() -> None:
    found = order_of([[3] * 100])
    assert (found.between_files, found.within_files, found.neighbors) == (None, None, None)
    assert "the same label" in found.verdict
