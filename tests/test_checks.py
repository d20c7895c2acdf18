"""Checks of arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from torchrec_io.checks import MOST, check_choice, check_integer, counted, is_integer
from torchrec_io.errors import SchemaError


def test_integers() -> None:
    integers: list[Any] = [0, 3, -1, np.int8(3), np.uint64(2**63)]
    others: list[Any] = [True, np.bool_(1), 1.0, "1", None, np.float32(1), [1]]
    assert all(map(is_integer, integers))
    assert type(check_integer("n", np.int64(4))) is int
    for value in others:
        assert not is_integer(value)
        with pytest.raises(ValueError, match=r"^n must be a non-negative integer, got "):
            check_integer("n", value)


@pytest.mark.parametrize(
    ("value", "least", "most", "message"),
    [
        (0, 1, MOST, "n must be a positive integer, got 0"),
        (-1, 0, MOST, "n must be a non-negative integer, got -1"),
        (1, 2, MOST, "n must be an integer of at least 2, got 1"),
        (5, 0, 4, "n must be an integer from 0 to 4, got 5"),
        (2**62 + 1, 0, MOST, f"n must be a non-negative integer, got {2**62 + 1}"),
    ],
)
def test_ranges(value: int, least: int, most: int, message: str) -> None:
    with pytest.raises(SchemaError) as raised:
        check_integer("n", value, least, most, SchemaError)
    assert str(raised.value) == message


def test_choices() -> None:
    check_choice("mode", None, ("a", None))
    with pytest.raises(ValueError, match=r"^mode must be one of 'a', None, got 'A': write 'a'$"):
        check_choice("mode", "A", ("a", None))
    with pytest.raises(ValueError, match=r"^mode must be one of 'a', None, got 'b'$"):
        check_choice("mode", "b", ("a", None))


def test_counts_in_words() -> None:
    assert [counted(count, "file") for count in (0, 1, 1200)] == [
        "0 files",
        "1 file",
        "1,200 files",
    ]
