"""Normalization of the values of a feature, and its inverse."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ..errors import SchemaError
from .checks import set_fields
from .feature import Spec

# A number, or nested sequences of numbers; also an array or a Tensor.
Numbers: TypeAlias = Any
_Values = TypeVar("_Values")

_DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class Normalize(Spec):
    """The map ``(value - offset) / scale``, for the ``normalize`` argument of a spec.

    :meth:`FeatureStatistics.by` makes it from statistics. A call normalizes values outside of a
    dataset, such as the state that a robot reports: ``normalize(state)``.

    An element whose scale is 0 is constant in the data. It becomes 0, as in
    ``normalize_action_and_proprio`` of OpenVLA, and :meth:`denormalize` returns its offset.

    Args:
        offset: Offset of each element; finite numbers of any shape. The shape must be that of the
            last dimensions of the values.
        scale: Scale of each element, of the same shape.
        mask: Whether each element is normalized, of the same shape. The others, such as a gripper
            that is open or closed, stay as they are. By default all are normalized.
        clip: Largest absolute value of a normalized element; larger ones are clipped. Octo and
            OpenVLA clip at 1. By default nothing is clipped.

    Raises:
        SchemaError: If a number is not finite, shapes differ, or clip is not positive.
    """

    offset: Numbers
    scale: Numbers
    mask: Numbers = None
    clip: float | None = None

    def __post_init__(self) -> None:
        set_fields(self, offset=_checked("offset", self.offset, float))
        set_fields(self, scale=_checked("scale", self.scale, float, self.shape))
        if self.mask is not None:
            set_fields(self, mask=_checked("mask", self.mask, bool, self.shape))
        if self.clip is not None:
            set_fields(self, clip=_checked("clip", self.clip, float, ()))
            if self.clip <= 0:
                raise SchemaError(f"clip must be positive, got {self.clip}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the elements."""
        return np.shape(self.offset)

    def __call__(self, values: _Values) -> _Values:
        """Return normalized values.

        Args:
            values: Array or Tensor ``[..., *shape]`` of numbers.

        Returns:
            An array or Tensor of the same shape; float64 if the values are, else float32.
        """
        floats, (offset, _, divisor, limit) = self._prepared(values)
        with np.errstate(all="ignore"):  # the result of values that are not finite is not, too
            result = (floats - offset) / divisor
        clipped: _Values = result if self.clip is None else result.clip(-limit, limit)
        return clipped

    def denormalize(self, values: _Values) -> _Values:
        """Return the values of normalized ones, such as the actions that a policy returns.

        Args:
            values: Array or Tensor ``[..., *shape]`` of numbers.

        Returns:
            An array or Tensor of the same shape; float64 if the values are, else float32.
        """
        floats, (offset, scale, *_) = self._prepared(values)
        restored: _Values = floats * scale + offset
        return restored

    @cached_property
    def _constants(self) -> dict[str, list[npt.NDArray[Any]]]:
        """Offset, scale, divisor and limit of each element, by the dtype of the values."""
        is_normalized = np.asarray(True if self.mask is None else self.mask)
        limit = math.inf if self.clip is None else self.clip
        found: dict[str, list[npt.NDArray[Any]]] = {}
        for dtype in _DTYPES:
            # Other elements have constants that change nothing.
            scale = np.where(is_normalized, self.scale, 1.0).astype(dtype)
            found[dtype] = [
                np.where(is_normalized, self.offset, 0.0).astype(dtype),
                scale,
                np.where(scale == 0, math.inf, scale).astype(dtype),
                np.where(is_normalized, limit, math.inf).astype(dtype),
            ]
        return found

    def _prepared(self, values: Any) -> tuple[Any, list[Any]]:
        """Return values as floats, and the constants as the same class."""
        is_tensor = hasattr(values, "new_tensor")  # torch is not imported here
        given: Any = values if is_tensor else np.asarray(values)
        dtype = "float64" if str(given.dtype).endswith("float64") else "float32"
        constants = self._constants[dtype]
        if not is_tensor:
            return given.astype(dtype, copy=False), constants
        floats = given if dtype == "float64" else given.float()
        return floats, [floats.new_tensor(constant) for constant in constants]


def check_normalize(normalize: Any, dtype: str, shape: tuple[int, ...]) -> Normalize | None:
    """Return the argument ``normalize`` of a spec.

    Args:
        normalize: The argument.
        dtype: Dtype of the values.
        shape: Shape of an item of values.

    Raises:
        SchemaError: If it is neither a :class:`Normalize` of such values nor None.
    """
    if normalize is None:
        return None
    if not isinstance(normalize, Normalize):
        raise SchemaError(
            "normalize must be a Normalize, such as stats[name].by('q01', 'q99'), got "
            f"{normalize!r}"
        )
    if dtype not in _DTYPES:
        raise SchemaError(f"normalize needs the dtype float32 or float64, got {dtype}")
    if shape[len(shape) - len(normalize.shape) :] != normalize.shape:
        raise SchemaError(
            f"normalize must have the shape of the values, {list(shape)}, or of their last "
            f"dimensions, got {list(normalize.shape)}"
        )
    return normalize


def _checked(
    name: str, value: Any, kind: type[float | bool], shape: tuple[int, ...] | None = None
) -> Any:
    """Return an argument as a number or bool, or as nested tuples, of a shape if it is given."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # lists of different lengths, a Tensor on a GPU
        array = np.asarray(None)
    kinds, wanted = ("b", "bools") if kind is bool else ("iuf", "finite numbers")
    if array.dtype.kind not in kinds or not np.isfinite(array).all():
        raise SchemaError(f"{name} must be {wanted}, got {value!r}")
    if shape is not None and array.shape != shape:
        raise SchemaError(f"{name} must have the shape {list(shape)}, got {list(array.shape)}")
    return _nested(array.astype(kind).tolist())


def _nested(value: Any) -> Any:
    """Return nested lists as tuples."""
    return tuple(map(_nested, value)) if isinstance(value, list) else value
