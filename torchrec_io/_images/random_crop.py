"""Random parts of images. Native code chooses the same parts, with the same random numbers.

A user's ``augment`` function is called in Python.
"""

from __future__ import annotations

import functools
import math
from typing import Any, TypeAlias

import numpy as np

from .. import _core
from .._schema.crops import Augment, Crop, RandomCrop, RandomFlip, RandomResizedCrop

NativeCrop: TypeAlias = "_core.RandomResizedCrop | _core.RandomCrop | _core.RandomFlip"
_Builtin: TypeAlias = "RandomResizedCrop | RandomCrop | RandomFlip"
_BUILTIN = frozenset({RandomResizedCrop, RandomCrop, RandomFlip})


def is_builtin(augment: Augment) -> bool:
    """Return whether a part is chosen natively. Subclasses may choose another one."""
    return type(augment) in _BUILTIN


def choose_builtin(augment: Any, height: int, width: int, key: bytes) -> Crop:
    """Return the part that a class of this library chooses.

    Args:
        augment: Object of one of the classes.
        height: Height of the image.
        width: Width of the image.
        key: Key of the random numbers; 16 bytes.

    Raises:
        ValueError: If the image is too small.
    """
    return Crop(*native_rule(augment).choose(height, width, key))


def generator_of(key: bytes) -> np.random.Generator:
    """Return the generator for an ``augment`` function.

    Args:
        key: Key of the random numbers; 16 bytes.
    """
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little")))


@functools.lru_cache(maxsize=64)
def native_rule(augment: _Builtin) -> NativeCrop:
    """Return the native form of an object of one of the classes."""
    if isinstance(augment, RandomFlip):
        return _core.RandomFlip(augment.flip)
    if isinstance(augment, RandomCrop):
        height, width = augment.size
        return _core.RandomCrop(height, width, augment.flip)
    smallest, largest = augment.scale
    low, high = augment.ratio
    logs = math.log(low), math.log(high)
    return _core.RandomResizedCrop((smallest, largest), (low, high), logs, augment.flip)
