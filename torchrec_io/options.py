"""What can be said about how records are loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from .errors import TorchRecIOError
from .order.distributed import resolve_rank
from .order.plan import UNEVEN_CHOICES, Uneven

ErrorPolicy: TypeAlias = "Literal['raise', 'skip'] | Callable[[TorchRecIOError], Any]"


@dataclass(frozen=True)
class LoadOptions:
    """How records are put into batches, shared and read; see :class:`torchrec_io.TFRecordDataset`.

    Raises:
        ValueError: a value is none of the choices.
    """

    batch_size: int | None = None
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
        check_least("epochs", self.epochs, 0)
        check_least("batch_size", self.batch_size, 1)
        check_least("num_threads", self.num_threads, 1)
        check_least("prefetch", self.prefetch, 1)
        if self.drop_last and self.batch_size is None:
            raise ValueError("drop_last needs a batch_size")
        resolve_rank(self.rank, self.world_size)

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


def check_least(name: str, value: int | None, least: int) -> None:
    """Raises ValueError unless a value is None or a whole number of at least ``least``."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
