"""Columns of the custom feature kinds of ``toy_features``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from torchrec_io._images.bad_value import BadValueError
from torchrec_io._parsing.columns.base import ColumnBuilder, LocatedBlock
from torchrec_io._parsing.columns.elements import ElementDecoder
from torchrec_io._parsing.layout import Column, Numbers


class DigitsDecoder(ElementDecoder):
    """Decoder of the values of a DigitsFeature."""

    def decode(self, value: memoryview, block: LocatedBlock, record: int) -> npt.NDArray[Any]:
        del block, record
        try:
            return np.array([float(digits) for digits in bytes(value).split()], self.dtype)
        except ValueError as error:
            raise BadValueError(f"the value must be numbers, got {bytes(value)!r}") from error


class OneHotBuilder(ColumnBuilder):
    """Builder of the column of a OneHotFeature."""

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        labels, starts, _ = block.integers(self.first_spec)
        for record in np.flatnonzero(np.diff(starts) != 1).tolist():
            block.fail(record, self.first_spec, "it must have one class number")
        if block.failures:
            return []
        for record in np.flatnonzero((labels < 0) | (labels >= self.feature.classes)).tolist():
            reason = f"the class number must be less than {self.feature.classes}"
            block.fail(record, self.first_spec, f"{reason}, got {labels[record]}")
        if block.failures:
            return []
        shape = (len(block), self.feature.classes)
        column = block.layout.reserve_dense((self.name,), "uint8", shape)
        one_hot = labels[:, np.newaxis] == np.arange(self.feature.classes)
        block.write_later(Numbers("uint8", shape, column.at), one_hot.astype(np.int64))
        return [column]
