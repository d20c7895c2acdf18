"""Rank and world size: given, or found, in one fixed order of precedence."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from torch import distributed

from torchrec_io.order.distributed import resolve_rank


def fake_torch(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
    module = SimpleNamespace(**{name: lambda value=value: value for name, value in answers.items()})
    monkeypatch.setitem(sys.modules, "torch.distributed", module)


def test_one_process_where_nothing_is_known() -> None:
    assert resolve_rank(None, None) == (0, 1)


@pytest.mark.parametrize(("rank", "world_size"), [(0, 1), (0, 4), (3, 4)])
def test_what_is_given_wins(rank: int, world_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "7")
    monkeypatch.setenv("WORLD_SIZE", "9")
    fake_torch(monkeypatch, is_available=True, is_initialized=True, get_rank=5, get_world_size=6)
    assert resolve_rank(rank, world_size) == (rank, world_size)


@pytest.mark.parametrize(("rank", "world_size"), [(0, None), (None, 2)])
def test_one_without_the_other_is_refused(rank: int | None, world_size: int | None) -> None:
    with pytest.raises(ValueError, match="rank and world_size must be given together"):
        resolve_rank(rank, world_size)


@pytest.mark.parametrize(("rank", "world_size"), [(-1, 2), (2, 2), (0, 0), (5, 2), (0, -1)])
def test_a_rank_outside_its_world_is_refused(rank: int, world_size: int) -> None:
    with pytest.raises(ValueError, match=r"(rank|world_size) must be .*, got"):
        resolve_rank(rank, world_size)


def test_torch_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "7")
    monkeypatch.setenv("WORLD_SIZE", "9")
    fake_torch(monkeypatch, is_available=True, is_initialized=True, get_rank=5, get_world_size=6)
    assert resolve_rank(None, None) == (5, 6)


@pytest.mark.parametrize("available", [False, True])
def test_the_environment_counts_before_torch_is_initialised(
    available: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    fake_torch(monkeypatch, is_available=available, is_initialized=False)
    assert resolve_rank(None, None) == (1, 3)


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE"])
def test_half_an_environment_is_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    assert resolve_rank(None, None) == (0, 1)


def test_a_broken_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ValueError, match="got 3"):
        resolve_rank(None, None)


def test_a_real_process_group_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "7")
    monkeypatch.setenv("WORLD_SIZE", "9")
    store = distributed.HashStore()  # type: ignore[attr-defined]  # left out of its stubs
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        assert resolve_rank(None, None) == (0, 1)
    finally:
        distributed.destroy_process_group()
    assert resolve_rank(None, None) == (7, 9)
