"""Digests of functions, which show that a predicate changed."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.conftest import ROOT
from torchrec_io._datasets.function_digest import digest_function


def function_of(source: str, **names: Any) -> Any:
    """Return ``f``, as some source in a module with other global names defines it."""
    module: dict[str, Any] = dict(names)
    exec(compile(textwrap.dedent(source), "source.py", "exec"), module)  # noqa: S102
    return module["f"]


def over(value: Any) -> Callable[[Any], Any]:
    return lambda batch: batch["x"] > value


@dataclasses.dataclass(slots=True)
class Limits:
    low: int
    high: int = 9


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Above:
    def __init__(self, limit: int) -> None:
        self.limit = limit

    def __call__(self, batch: Any) -> Any:
        return self.keep(batch)

    def keep(self, batch: Any) -> Any:
        return batch["x"] > self.limit


class AtLeast(Above):
    def keep(self, batch: Any) -> Any:
        return batch["x"] >= self.limit


DIFFERENT: list[tuple[Any, Any]] = [
    (function_of("f = lambda b: b['x'] < 3"), function_of("f = lambda b: b['x'] < 4")),
    (function_of("f = lambda b: b['x'] < 3"), function_of("f = lambda b: b['x'] > 3")),
    (function_of("f = lambda b: b['x'] < 3"), function_of("f = lambda b: b['y'] < 3")),
    (function_of("f = lambda b: b['x'] < 1"), function_of("f = lambda b: b['x'] < 1.0")),
    (function_of("f = lambda b: b.x.any()"), function_of("f = lambda b: b.x.all()")),
    (function_of("f = lambda b, n=1: b < n"), function_of("f = lambda b, n=2: b < n")),
    (function_of("f = lambda b, *, n=1: b < n"), function_of("f = lambda b, *, n=2: b < n")),
    (function_of("f = lambda b: b < N", N=1), function_of("f = lambda b: b < N", N=2)),
    (
        function_of("f = lambda b: [x < N for x in b]", N=1),
        function_of("f = lambda b: [x < N for x in b]", N=2),
    ),
    (
        function_of("f = lambda b: (lambda: b in {1, 2})()"),
        function_of("f = lambda b: (lambda: b in {1, 3})()"),
    ),
    (
        function_of("def g(b): return b < 1\ndef f(b): return g(b)"),
        function_of("def g(b): return b < 2\ndef f(b): return g(b)"),
    ),
    (over(1), over(2)),
    (over({1: [2]}), over({1: [3]})),
    (over({"a", 1.5}), over({"a", 2.5})),
    (over({(1, "a")}), over({(1, "b")})),
    (over(torch.tensor([1, 2])), over(torch.tensor([1, 3]))),
    (over(torch.tensor([1, 2])), over(torch.tensor([[1, 2]]))),
    (over(torch.ones(2, dtype=torch.bfloat16)), over(torch.zeros(2, dtype=torch.bfloat16))),
    (over(np.array([1.0])), over(np.array([2.0]))),
    (over(np.array(["2024"], "M8[Y]")), over(np.array(["2025"], "M8[Y]"))),
    (over(Limits(1)), over(Limits(2))),
    (over(Color.RED), over(Color.BLUE)),
    (over(re.compile("a")), over(re.compile("a", re.IGNORECASE))),
    (over(torch.float32), over(torch.float64)),
    (over(Path("a")), over(Path("b"))),
    (over("\udcff"), over("\udcfe")),
    (Above(1), Above(2)),
    (Above(1), AtLeast(1)),
    (Above(1).keep, Above(2).keep),
    (Above(1).keep, AtLeast(1).keep),
    (functools.partial(Above.keep, Above(1)), functools.partial(Above.keep, Above(2))),
    (functools.partial(over, 1), functools.partial(over, value=1)),
    (functools.cache(over(1)), functools.cache(over(2))),
    (torch.isnan, torch.isinf),
]


@pytest.mark.parametrize(("first", "other"), DIFFERENT)
def test_another_function(first: Any, other: Any) -> None:
    assert digest_function(first) != digest_function(other)
    assert digest_function(first) == digest_function(first)
    assert digest_function(other) == digest_function(other)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (over(7), over(7)),
        (over({"b", "a", "c"}), over({"c", "b", "a"})),
        (over({1: [2]}), over({1: [2]})),
        (over(torch.arange(3)), over(torch.arange(3))),
        (Above(1), Above(1)),
        (Above(1).keep, Above(1).keep),
        (functools.partial(over, 1), functools.partial(over, 1)),
        (function_of("f = lambda b: b < 1"), function_of("\n\nf = lambda  rows: (rows < 1)")),
        (function_of("f = lambda b: b < 1", N=1), function_of("f = lambda b: b < 1", N=2)),
    ],
)
def test_the_same_function(first: Any, other: Any) -> None:
    assert digest_function(first) == digest_function(other)


def test_values_without_a_stable_form_count_by_their_type() -> None:
    first, other = over(object()), over(object())
    assert digest_function(first) == digest_function(other)
    assert digest_function(first) != digest_function(over(Above))
    with open(__file__) as file:
        digest_function(over(file))
    digest_function(over(torch.empty(2, device="meta")))
    digest_function(over(torch.eye(2).to_sparse()))
    digest_function(over(np.array([object()])))


def test_circles_and_depth() -> None:
    function_of("def f(b): return f(b)")
    recursive = function_of("def f(b): return f(b) or g(b)\ndef g(b): return f(b)")
    assert digest_function(recursive) == digest_function(recursive)
    own: list[Any] = []
    own.append(own)
    assert digest_function(over(own)) == digest_function(over(own))
    deep: Any = 1
    for _ in range(10_000):
        deep = (deep, None)
    digest_function(over(deep))

    def unfinished() -> Any:
        return lambda: later

    inner = unfinished()
    digest_function(inner)
    later = 1
    assert inner() == 1


def test_functions_of_installed_packages_count_by_their_names() -> None:
    source = "def f(b): return norm(b)"
    first = function_of(source, norm=torch.nn.functional.normalize)
    other = function_of(source, norm=torch.nn.functional.pad)
    assert digest_function(first) != digest_function(other)
    copied = types.FunctionType(
        torch.nn.functional.normalize.__code__.replace(co_consts=("other",)), {}, "normalize"
    )
    copied.__module__, copied.__qualname__ = "torch.nn.functional", "normalize"
    assert digest_function(first) == digest_function(function_of(source, norm=copied))


@pytest.mark.slow
def test_processes_agree(tmp_path: Path) -> None:
    """The first process compiles the module, the others load it; each hashes text differently."""
    (tmp_path / "own_module.py").write_text(
        textwrap.dedent(
            """
            WORDS = {"a", "b", "c", ("d", 1)}
            def helper(row, also=(1, 2), *, other=frozenset({"x", "y"})):
                return row in {"p", "q", "r"} or row in (1, 2) or row in WORDS
            def predicate(batch, flags={"one": (1, 2)}):
                return [helper(row) or row in (1, 2) for row in batch]
            """
        )
    )
    script = (
        "import own_module; from torchrec_io._datasets.function_digest import digest_function; "
        "print(digest_function(own_module.predicate))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
