"""A batch size that changes at given steps of the training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..checks import check_integer


@dataclass(frozen=True)
class Ramp:
    """A batch size that changes at given steps, also called batch size warmup or ramp-up.

    ``batch_size=tio.Ramp({0: 256, 1_000: 512})`` makes batches of 256 records, and of 512 from step
    1,000 on. See docs/order.md.

    Attributes:
        sizes: Batch size from each step on, by the number of the step. Steps are counted from the
            start of epoch 0; the first one is 0.

    Raises:
        ValueError: If a number is invalid, or there is no size for step 0.
    """

    sizes: Mapping[int, int]

    def __post_init__(self) -> None:
        if not isinstance(self.sizes, Mapping) or 0 not in self.sizes:
            raise ValueError(
                "the sizes of a Ramp must be a dict of steps and batch sizes, from step 0 on, such "
                f"as {{0: 256, 1_000: 512}}, got {self.sizes!r}"
            )
        steps = [check_integer("a step of a Ramp", step) for step in self.sizes]
        sizes = [check_integer("a batch size of a Ramp", size, 1) for size in self.sizes.values()]
        object.__setattr__(self, "sizes", dict(sorted(zip(steps, sizes, strict=True))))

    def __repr__(self) -> str:
        return f"Ramp({self.sizes})"

    @property
    def first(self) -> int:
        """Batch size of step 0."""
        return self.sizes[0]

    def describe(self) -> dict[str, int]:
        """Return the sizes as JSON values."""
        return {str(step): size for step, size in self.sizes.items()}
