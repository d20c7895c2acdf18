"""The trainers that a process has imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .._tensors.trainers import Trainer


def imported_trainers() -> Sequence[Trainer]:
    """Return the trainers that this process has imported. It does not import others."""
    trainers: list[Trainer] = []
    if {"accelerate", "accelerate.state"} <= sys.modules.keys():
        from .accelerate_trainer import AccelerateTrainer  # noqa: PLC0415  # imports Accelerate

        trainers.append(AccelerateTrainer())
    if {"lightning.pytorch", "pytorch_lightning"} & sys.modules.keys():
        from .lightning_trainer import LightningTrainer  # noqa: PLC0415  # rarely needed

        trainers.append(LightningTrainer())
    return trainers
