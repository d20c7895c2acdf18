"""Runs of examples/train_imagenet.py whose training images are recorded.

As a program, for torchrun: ``imagenet.py SEEN STOP ARGUMENTS...`` writes the images of rank n to
the file SEEN-n, and sends Ctrl-C to the last rank in step STOP, if that is not 0.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

EXAMPLES = Path(__file__).parents[2] / "examples"

Step = list[str]  # a digest of each image


class Recorder:
    """The steps of a run of the example.

    Args:
        example: The module of the example.
        interrupt: Step in which this process gets Ctrl-C.
        crash: Step before which the run fails.
    """

    def __init__(self, example: Any, *, interrupt: int = 0, crash: int = 0) -> None:
        self.steps: list[Step] = []
        self._train_step = example.train_step
        self._interrupt = interrupt
        self._crash = crash
        example.train_step = self._record

    def _record(self, run: Any, batch: Any) -> torch.Tensor:
        if run.step + 1 == self._crash:
            raise OSError("power failed")
        images = batch["image/encoded"].float().numpy()
        self.steps.append([hashlib.blake2b(image, digest_size=8).hexdigest() for image in images])
        if run.step + 1 == self._interrupt:
            signal.raise_signal(signal.SIGINT)
        loss: torch.Tensor = self._train_step(run, batch)
        return loss


def load_example() -> Any:
    """Import the example anew. It reports after 2 steps and saves after 3."""
    for name in ("train_imagenet", "imagenet_files"):
        sys.modules.pop(name, None)
    sys.path.insert(0, str(EXAMPLES))
    try:
        example: Any = importlib.import_module("train_imagenet")
    finally:
        sys.path.remove(str(EXAMPLES))
    example.REPORT_STEPS, example.SAVE_STEPS = 2, 3
    return example


def make_files(folder: Path, training: int, validation: int) -> None:
    """Make the images of the example, but fewer."""
    example = load_example()
    sys.modules["imagenet_files"].__dict__["SPLITS"] = {
        "train": (training, 2),
        "validation": (validation, 1),
    }
    example.make_missing_data(folder)


def main(seen: str, stop: str, arguments: Sequence[str]) -> None:
    """Run the example, and write the images that it trained on."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    example = load_example()
    recorder = Recorder(example, interrupt=int(stop) if rank == ranks - 1 else 0)
    try:
        example.main(arguments)
    finally:
        Path(f"{seen}-{rank}").write_text(json.dumps(recorder.steps), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
