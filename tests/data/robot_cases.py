"""Windows of steps that ``make_robots_golden.py`` has tf.data compute, and tests compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Offsets: TypeAlias = "Sequence[int] | int"

# Lengths of the episodes of each dataset, shard by shard. "arm" has images, "rover" does not.
LENGTHS = {"arm": [1, 2, 3, 11, 17], "rover": [500, 1, 7]}
# Features whose statistics are compared.
STATISTICS = {
    "arm": ("steps/action", "steps/observation/state", "steps/reward"),
    "rover": ("steps/action/base", "steps/action/gripper", "steps/observation/joints"),
}


@dataclass(frozen=True)
class Case:
    """Windows of a dataset, with the arguments of ``steps``.

    Attributes:
        dataset: Name of the dataset.
        offsets: Offsets by feature, or offsets of all features of the steps.
        outside: Treatment of steps outside the episode.
        stride: A window starts at every ``stride``-th step.
        features: Features to compare.
    """

    dataset: str
    offsets: Mapping[str, Offsets] | Sequence[int]
    outside: Literal["drop", "repeat", "zeros"]
    stride: int = 1
    features: tuple[str, ...] = ()

    def offsets_of(self, name: str) -> Offsets:
        """Return the offsets of a feature, given without "steps/"."""
        if not isinstance(self.offsets, Mapping):
            return self.offsets
        found = [key for key in self.offsets if f"{name}/".startswith(f"{key}/")]
        return self.offsets[found[0]] if found else 0


_ARM = (
    "observation/front",
    "observation/side",
    "observation/wrist",
    "observation/state",
    "action",
    "reward",
    "is_first",
    "is_last",
    "language_instruction",
)
_ROVER = ("observation/joints", "observation/task", "action/base", "action/gripper", "is_terminal")

CASES = {
    "repeat": Case("arm", {"observation": (-1, 0), "action": range(8)}, "repeat", features=_ARM),
    "zeros": Case(
        "arm",
        {
            "observation": (-2, 0),
            "action": range(4),
            "reward": (0, 5),
            "is_last": (-1, 1),
            "language_instruction": (0, 2),
        },
        "zeros",
        features=_ARM,
    ),
    "drop": Case("arm", {"observation": (0, 2), "action": range(3)}, "drop", features=_ARM[1:]),
    "drop before": Case(
        "arm", {"observation/state": (-2,), "action": (1,)}, "drop", features=_ARM[2:]
    ),
    "one window": Case("arm", range(3), "drop", features=_ARM[2:]),
    "later step": Case("arm", {"observation": 2}, "repeat", features=_ARM[2:]),
    "long": Case("rover", {"action": range(16)}, "repeat", 5, _ROVER),
    "far": Case("rover", {"observation": (-600, 0, 3), "action": (499,)}, "zeros", 7, _ROVER),
    "nested": Case("rover", {"action/base": (-1, 0, 1)}, "drop", features=_ROVER),
}
