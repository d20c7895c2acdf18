"""Orders and states are those of earlier releases, whatever the bytes come from."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.orders import CASES, FILE, SIZES, WORLDS, describe, key_of, keys
from tests.support.datasets import write_files

KNOWN: dict[str, Any] = json.loads(FILE.read_text())


@pytest.fixture(scope="module", params=[None, "gzip"])
def paths(tmp_path_factory: pytest.TempPathFactory, request: Any) -> list[str]:
    return write_files(tmp_path_factory.mktemp("orders"), SIZES, request.param)


@pytest.mark.parametrize(("name", "world"), list(keys()))
def test_orders(paths: list[str], name: str, world: tuple[int, str]) -> None:
    assert describe(paths, name, world) == KNOWN[key_of(name, world)]


@pytest.mark.parametrize("world", WORLDS)
def test_a_mixture_whose_datasets_are_read_apart(
    paths: list[str], world: tuple[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CASES, "mixed", {**CASES["mixed"], "source": "part"})
    assert describe(paths, "mixed", world) == KNOWN[key_of("mixed", world)]


def test_nothing_else_is_known() -> None:
    assert KNOWN.keys() == {key_of(name, world) for name, world in keys()}
