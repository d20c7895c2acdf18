"""Presets of robot datasets: the tables of Octo and OpenVLA for Open X-Embodiment, as data.

The facts are in ``robot_datasets.json``, which names their sources.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from .._schema.nesting import SEPARATOR, leaves_of
from .._tensors.batch import Batch
from ..checks import UnknownNameError
from .layouts import expand_names

_STEPS = "steps/"
_CAMERAS = "steps/observation/"
_PART = re.compile(r"(?:([\w ]+) )?([\w/]+)(?:\[(-?\d+)?:(-?\d+)?\])?")
# Numbers of an action that are normalized; the last one, of the gripper, is not.
_NORMALIZED = {"eef_pos": 6, "joint_pos": 7}
_RULES: dict[str, Callable[[Tensor], Tensor]] = {
    "clip": lambda values: values.clamp(0, 1),
    "invert": lambda values: 1 - values,
}


class OxePart(NamedTuple):
    """Numbers of a feature, a part of a state or an action.

    Attributes:
        feature: Name of the feature; None for zeros.
        start: First number along the last axis, as in a slice; None for the first of all.
        stop: End of the slice; None for all. For zeros, the number of zeros.
        rules: Rules of Octo and OpenVLA for the numbers, in order: "clip" to 0 and 1; "invert",
            that is 1 - x; "binarize" the gripper: 1 (open) if more than 0.95, 0 if less than 0.05,
            otherwise as in the next step; "absolute": make a gripper of relative actions (1 closes,
            -1 opens) absolute (1 is open, 0 closed); "euler": roll, pitch and yaw of a quaternion;
            "zlib": float32 that are stored compressed.
    """

    feature: str | None
    start: int | None = None
    stop: int | None = None
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class OxeDataset:
    """The features of a robot dataset that training uses, as Octo and OpenVLA choose them.

    Attributes:
        name: Name of the dataset in the tables.
        cameras: Names of images by view, "primary", "secondary" or "wrist".
        depth: Names of depth images by view.
        state: Parts of the state of the robot, concatenated; empty if the tables use none.
        state_encoding: "pos_euler": position, roll, pitch, yaw, padding, gripper; "pos_quat":
            position, quaternion, gripper; "joint": 7 joints, gripper; or "none".
        action: Parts of the action, concatenated.
        action_encoding: "eef_pos": changes of position, roll, pitch, yaw of the end effector, and
            the gripper; or "joint_pos": 7 joints and the gripper.
        instruction: Name of the text.
        frequency: Steps per second, Hz; None if the tables do not give it.
        note: Other things that the tables do, or "".
    """

    name: str
    cameras: Mapping[str, str]
    depth: Mapping[str, str]
    state: tuple[OxePart, ...]
    state_encoding: str
    action: tuple[OxePart, ...]
    action_encoding: str
    instruction: str
    frequency: float | None
    note: str

    @property
    def mask(self) -> tuple[bool, ...]:
        """Whether each number of the action is normalized: all but that of the gripper."""
        return (True,) * _NORMALIZED[self.action_encoding] + (False,)

    @property
    def features(self) -> list[str]:
        """Names of cameras, state, action and instruction, for ``from_tfds(features=...)``."""
        parts = [part.feature for part in (*self.state, *self.action) if part.feature]
        return [*dict.fromkeys([*self.cameras.values(), *parts, self.instruction])]

    def concat(
        self,
        values: Batch | Mapping[str, Any],
        which: Literal["state", "action"],
        rules: Mapping[str, Callable[[Tensor], Tensor]] | None = None,
    ) -> Tensor:
        """Return the state or the action of steps, or of windows of steps, in one Tensor.

        Args:
            values: Batch or sample of steps, for example in a ``transform``.
            which: "state" or "action".
            rules: Functions for the rules of :class:`OxePart` that have none here: all but "clip"
                and "invert". Functions for these two replace those here.

        Returns:
            float32 ``[B, n]``, or ``[B, window, n]``; without B for a sample.

        Raises:
            KeyError: If a feature is missing.
            ValueError: If the dataset has no state, or if a rule has no function.
        """
        parts: tuple[OxePart, ...] = getattr(self, which)
        if not parts:
            raise ValueError(f"the tables use no {which} of {self.name!r}")
        columns = {SEPARATOR.join(path): value for path, value in leaves_of(dict(values.items()))}
        names = [part.feature for part in parts if part.feature]
        for name in names:
            if name not in columns:
                raise UnknownNameError(name, columns, "the steps have")
        # One number for each step has no axis of its own.
        widest = max((columns[name] for name in names), key=Tensor.dim)
        found = []
        for part in parts:
            numbers = columns[part.feature].float() if part.feature else None
            if numbers is None:
                numbers = widest.new_zeros(*widest.shape[:-1], part.stop or 0, dtype=torch.float32)
            elif numbers.dim() < widest.dim():
                numbers = numbers[..., None]
            numbers = numbers[..., part.start : part.stop]
            for rule in part.rules:
                numbers = _function_of(rule, part, rules or {})(numbers)
            found.append(numbers)
        return torch.cat(found, -1)


def _function_of(
    rule: str, part: OxePart, rules: Mapping[str, Callable[[Tensor], Tensor]]
) -> Callable[[Tensor], Tensor]:
    function = rules.get(rule) or _RULES.get(rule)
    if function is None:
        raise ValueError(
            f"{part.feature!r} needs a function for the rule {rule!r}: pass "
            f"rules={{{rule!r}: function}}"
        )
    return function


def oxe(name: str) -> OxeDataset:
    """Return which features of a dataset of Open X-Embodiment are cameras, state and action.

    "bridge" is the dataset of that name in the bucket of Open X-Embodiment, "bridge_orig" the newer
    one of the BridgeData V2 website.

    Source: octo-models/octo, ``octo/data/oxe/oxe_dataset_configs.py`` and
    ``oxe_standardization_transforms.py``; openvla/openvla,
    ``prismatic/vla/datasets/rlds/oxe/configs.py`` and ``transforms.py``. Frequencies:
    thu-ml/RoboticsDiffusionTransformer, ``configs/dataset_control_freq.json``.

    Args:
        name: Name of the dataset, one of :func:`oxe_names`.

    Raises:
        KeyError: If the tables do not have the dataset.
    """
    aliases: dict[str, str] = _tables()["aliases"]
    datasets = _datasets()
    table = datasets.get(aliases.get(name, name))
    if table is None:
        raise UnknownNameError(name, [*aliases, *datasets], "the tables have")
    return OxeDataset(
        aliases.get(name, name),
        {view: _CAMERAS + key for view, key in table["cameras"].items()},
        {view: _CAMERAS + key for view, key in table.get("depth", {}).items()},
        tuple(map(_part_of, table["state"])),
        table["state_encoding"],
        tuple(map(_part_of, table["action"])),
        table.get("action_encoding", "eef_pos"),
        _STEPS + table.get("instruction", "language_instruction"),
        table.get("hz"),
        table.get("note", ""),
    )


def oxe_names() -> list[str]:
    """Return the names of the datasets that :func:`oxe` knows."""
    return [*_tables()["aliases"], *_datasets()]


def oxe_mixture(name: str) -> dict[str, float]:
    """Return the weights of a mixture of OpenVLA, such as "oxe_magic_soup", by dataset.

    The weights are relative: OpenVLA multiplies them by the numbers of steps, see
    ``balance_weights`` in ``prismatic/vla/datasets/rlds/dataset.py``
    (``make_interleaved_dataset``).

    Source: openvla/openvla, ``prismatic/vla/datasets/rlds/oxe/mixtures.py``.

    Args:
        name: Name of the mixture.

    Raises:
        KeyError: If there is no such mixture; the message lists them.
    """
    mixtures: dict[str, dict[str, float]] = _tables()["mixtures"]
    if name not in mixtures:
        raise UnknownNameError(name, mixtures, "the mixtures are")
    return dict(mixtures[name])


@functools.cache
def _tables() -> dict[str, Any]:
    tables: dict[str, Any] = json.loads(
        files(__package__).joinpath("robot_datasets.json").read_text("utf-8")
    )
    return tables


@functools.cache
def _datasets() -> dict[str, Any]:
    return {
        name: table
        for pattern, table in _tables()["datasets"].items()
        for name in expand_names([pattern])
    }


def _part_of(text: str) -> OxePart:
    """Return the part that a text such as ``"clip invert action[-1:]"`` stands for."""
    found = _PART.fullmatch(text)
    assert found is not None
    rules, name, *bounds = found.groups()
    start, stop = (None if bound is None else int(bound) for bound in bounds)
    feature = None if name == "pad" else _STEPS + name
    return OxePart(feature, start, stop, tuple((rules or "").split()))
