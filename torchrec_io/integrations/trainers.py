"""The hooks of the trainers that a process has imported."""

from __future__ import annotations

import sys

from .._tensors.trainers import TrainerHooks


def imported_hooks() -> TrainerHooks:
    """Return the hooks of the trainers that this process has imported. It does not import others.

    Programs may import several trainers. Their hooks are different ones.
    """
    hooks = TrainerHooks()
    if {"accelerate", "accelerate.state"} <= sys.modules.keys():
        from .accelerate_hooks import HOOKS  # noqa: PLC0415  # imports Accelerate

        hooks = HOOKS
    if {"lightning.pytorch", "pytorch_lightning"} & sys.modules.keys():
        from .lightning_hooks import position_warning  # noqa: PLC0415  # rarely needed

        hooks = hooks._replace(position_warning=position_warning)
    return hooks
