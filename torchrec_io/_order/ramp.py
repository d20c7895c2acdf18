"""A size that changes at given steps of the training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..checks import MOST, check_integer


@dataclass(frozen=True)
class Ramp:
    """A size that changes at given steps of the training.

    ``batch_size=tio.Ramp({0: 256, 1_000: 512})`` makes batches of 256 records, and of 512 from step
    1,000 on: batch size warmup, also called ramp-up. ``batch_tokens`` and the length of packed rows
    may change in the same way, as in ``tio.Pack(tio.Ramp({0: 2048, 1_000: 4096}))``. See
    docs/order.md.

    Attributes:
        sizes: Size from each step on, by the number of the step. Steps are counted from the start
            of epoch 0; the first one is 0.

    Raises:
        ValueError: If a number is invalid, or there is no size for step 0.
    """

    sizes: Mapping[int, int]

    def __post_init__(self) -> None:
        if not isinstance(self.sizes, Mapping) or 0 not in self.sizes:
            raise ValueError(
                "the sizes of a Ramp must be a dict of steps and sizes, from step 0 on, such as "
                f"{{0: 256, 1_000: 512}}, got {self.sizes!r}"
            )
        steps = [check_integer("a step of a Ramp", step) for step in self.sizes]
        sizes = [check_integer("a size of a Ramp", size, 1) for size in self.sizes.values()]
        object.__setattr__(self, "sizes", dict(sorted(zip(steps, sizes, strict=True))))

    def __repr__(self) -> str:
        return f"Ramp({self.sizes})"

    @property
    def first(self) -> int:
        """Size of step 0."""
        return self.sizes[0]

    def describe(self) -> dict[str, int]:
        """Return the sizes as JSON values."""
        return {str(step): size for step, size in self.sizes.items()}


def check_size(name: str, value: Any, most: int = MOST) -> int | Ramp:
    """Return an argument that is a positive integer, or a ramp of such integers.

    Raises:
        ValueError: If it is not, or larger than ``most``.
    """
    if isinstance(value, Ramp):
        check_integer(f"the largest size of {name}", max(value.sizes.values()), 1, most)
        return value
    return check_integer(name, value, 1, most)


def described(size: int | Ramp | None) -> Any:
    """Return a size, or the sizes of a ramp, as a JSON value."""
    return size.describe() if isinstance(size, Ramp) else size
