"""What can be said about how records are loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from ..errors import TorchRecIOError
from ..order.distributed import resolve_rank
from ..order.plan import UNEVEN_CHOICES, Uneven

ErrorPolicy: TypeAlias = "Literal['raise', 'skip'] | Callable[[TorchRecIOError], Any]"

_LEAST = {
    "batch_size": 1,
    "batch_tokens": 1,
    "epochs": 0,
    "rank": 0,
    "world_size": 1,
    "num_threads": 1,
    "prefetch": 1,
}


@dataclass(frozen=True)
class LoadOptions:
    """How records are put into batches, shared and read; see :class:`torchrec_io.TFRecordDataset`.

    Raises:
        ValueError: a value is none of the choices.
    """

    batch_size: int | None = None
    batch_tokens: int | None = None
    drop_last: bool = False
    epochs: int | None = 1
    rank: int | None = None
    world_size: int | None = None
    uneven: Uneven = "keep"
    on_error: ErrorPolicy = "raise"
    num_threads: int | None = None
    prefetch: int = 2
    with_key: bool = False

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "skip") and not callable(self.on_error):
            raise ValueError(
                f"on_error must be 'raise', 'skip' or a function, not {self.on_error!r}"
            )
        if self.uneven not in UNEVEN_CHOICES:
            raise ValueError(f"uneven must be one of {UNEVEN_CHOICES}, not {self.uneven!r}")
        check_number("prefetch", self.prefetch, 1)
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None:
                check_number(name, value, least)
                object.__setattr__(self, name, int(value))  # NumPy's integers make no good state
        if self.drop_last and not self.in_batches:
            raise ValueError("drop_last needs a batch_size")
        resolve_rank(self.rank, self.world_size)

    @property
    def in_batches(self) -> bool:
        """Whether batches are given, not samples."""
        return self.batch_size is not None or self.batch_tokens is not None

    def replace(self, **options: Any) -> LoadOptions:
        """The same but for some options.

        Raises:
            TypeError: there is no such option.
            ValueError: a value is none of the choices.
        """
        known = [field.name for field in dataclasses.fields(self)]
        for name in options:
            if name not in known:
                raise TypeError(f"{name!r} cannot be replaced; what can is {', '.join(known)}")
        return dataclasses.replace(self, **options)


def check_number(name: str, value: int, least: int) -> None:
    """Raises ValueError unless a value is a whole number of at least ``least``, within 62 bits."""
    is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_number or not least <= value < 2**62:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
