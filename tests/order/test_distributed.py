"""Rank and world size: sources and their precedence."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from torchrec_io._order.distributed import resolve_rank


def fake_torch(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
    module = SimpleNamespace(**{name: lambda value=value: value for name, value in answers.items()})
    monkeypatch.setitem(sys.modules, "torch.distributed", module)


def test_arguments_override_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "7")
    monkeypatch.setenv("WORLD_SIZE", "9")
    fake_torch(monkeypatch, is_available=True, is_initialized=True, get_rank=5, get_world_size=6)
    for given in ((0, 1), (0, 4), (3, 4)):
        assert resolve_rank(*given) == given


def test_torch_takes_precedence_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "7")
    monkeypatch.setenv("WORLD_SIZE", "9")
    fake_torch(monkeypatch, is_available=True, is_initialized=True, get_rank=5, get_world_size=6)
    assert resolve_rank(None, None) == (5, 6)


@pytest.mark.parametrize("available", [False, True])
def test_environment_is_used_before_torch_is_initialised(
    available: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    fake_torch(monkeypatch, is_available=available, is_initialized=False)
    assert resolve_rank(None, None) == (1, 3)


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE"])
def test_incomplete_environment_is_ignored(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    assert resolve_rank(None, None) == (0, 1)


def test_invalid_environment_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ValueError, match="got 3"):
        resolve_rank(None, None)
