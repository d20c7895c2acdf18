"""Samples: single records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Sample(dict[str, Any]):
    """The values of one record by name: Tensors, bytes, BytesArrays, Raggeds or Sparses.

    Where the schema has dicts of features, the sample has plain dicts of values. The attributes
    tell :func:`collate` how to join values of different lengths. Their keys are flat names such as
    ``"objects/label"``.

    Attributes:
        ragged: dtype of the offsets, for each value that becomes a row of a Ragged.
        padded: Fill value, for each value that is padded to the longest one of a batch.
        axes: Axes that are padded, for padded values. Default: the first axis.
    """

    def __init__(
        self,
        values: Any = (),
        ragged: Mapping[str, str] | None = None,
        padded: Mapping[str, Any] | None = None,
        axes: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        super().__init__(values)
        self.ragged = ragged or {}
        self.padded = padded or {}
        self.axes = axes or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Sample, (dict(self), self.ragged, self.padded, self.axes)
