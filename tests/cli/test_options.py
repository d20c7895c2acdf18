"""Common options of the commands."""

from __future__ import annotations

import pytest
from typer import BadParameter

from torchrec_io.cli.parsers import parse_size


def test_sizes() -> None:
    for text, size in {
        "4096": 4096, "100MB": 10**8, "100 mb": 10**8, "1.5G": 1_500_000_000, "64MiB": 1 << 26,
        "1kib": 1024, "7B": 7, "2T": 2 * 10**12,
    }.items():  # fmt: skip
        assert parse_size(text) == size, text
    for text in ("9" * 400, "", "MB", "0", "-1", "1XB", "1 M B", "0.1", "1e3", "iB", "1iB"):
        with pytest.raises(BadParameter, match="size"):
            parse_size(text)
