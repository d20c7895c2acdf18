"""Fixtures of the tests of tensors."""

from __future__ import annotations

import pytest
from torch import Tensor


@pytest.fixture
def fake_pinning(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Stands in for page-locked memory; lists the tensors that were put there."""
    pinned: list[Tensor] = []

    def pin_tensor(self: Tensor) -> Tensor:
        pinned.append(self)
        return self.clone()

    monkeypatch.setattr(Tensor, "pin_memory", pin_tensor)
    return pinned
