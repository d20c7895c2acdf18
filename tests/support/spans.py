"""Spans of compressed files."""

from __future__ import annotations

import pytest

from torchrec_io.storage.byte_source import ByteSource
from torchrec_io.storage.span import Span


def count_decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each decoding of a span adds its number."""
    decoded: list[int] = []
    original = Span.decode

    def decode(self: Span, file: ByteSource, end: int) -> None:
        decoded.append(self.number)
        original(self, file, end)

    monkeypatch.setattr(Span, "decode", decode)
    return decoded
