"""Tensors serialized by TensorFlow 2.21."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.conftest import TESTS

_HEADER = (TESTS / "native" / "written_tensors.h").read_text("utf-8")


def _written() -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yield dtypes and tensors in hex, from the header that the native tests use."""
    for dtype, literals in re.findall(r"\{TensorType::(\w+),(.*?)\}", _HEADER, re.DOTALL):
        # Neighbouring literals are one.
        parts = [re.sub(r"\W", "", text) for text in re.findall(r'(?:"\w*"\s*)+', literals)]
        scalar, _empty, cube, filled = parts
        yield dtype.removesuffix("ean"), (scalar, cube, filled)


# A scalar, a tensor of shape [1, 2, 2], and one of shape [2, 2] with a single, repeated value.
WRITTEN = dict(_written())
