"""Write two small RLDS datasets of unlike robots with TFDS.

The committed directories were written by tensorflow-datasets 4.9.10. Run this script with the
Python of an environment that has it and ``tensorflow-cpu``; the files are the same every time, in
another folder if one is named: ``python examples/data/make_robots.py [FOLDER]``.

The hand of a robot starts anywhere on a plane of 2 x 2 units and goes to a red dot, which is near
one of the corners. At each step it moves by at most 0.2 units along each axis. The gripper closes
at the dot. ``arm`` names and stores its features as BridgeData V2 does, ``gantry`` as RT-1 does.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

# Both must be set before TensorFlow is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow_datasets as tfds
from tensorflow_datasets.core.example_serializer import ExampleSerializer
from tensorflow_datasets.core.utils import gcs_utils

OUT = Path(__file__).parent / "robots"
STRIDE = 0.2
CORNERS = np.array([[-0.7, -0.7], [-0.7, 0.7], [0.7, -0.7], [0.7, 0.7]])
gcs_utils._is_gcs_disabled = True  # noqa: SLF001  # nothing is looked up elsewhere


def serialize(serializer: ExampleSerializer, example: Any) -> bytes:
    """Serialize the features in an order that is the same in every process."""
    message: bytes = serializer.get_tf_example(example).SerializeToString(deterministic=True)
    return message


ExampleSerializer.serialize_example = serialize


def picture(size: int, target: Any, hand: Any) -> Any:
    """Return an image ``[size, size, 3]`` of a red dot and a green hand on a dark plane."""
    rows, columns = np.mgrid[:size, :size]
    image = np.full((size, size, 3), 30, np.uint8)
    for place, channel in ((target, 0), (hand, 1)):
        row, column = (place + 1) / 2 * (size - 4) + 1.5
        image[(abs(rows - row) < 1.5) & (abs(columns - column) < 1.5), channel] = 240
    return image


def paths(seed: int, count: int) -> Iterator[list[tuple[Any, Any, Any, float]]]:
    """Yield episodes of steps: places of the dot and the hand, motion, whether to close."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        target, hand = CORNERS[number % 4], rng.uniform(-1, 1, 2)
        steps: list[tuple[Any, Any, Any, float]] = []
        while len(steps) < 2 or steps[-2][3] == 0:
            motion = np.clip(target - hand, -STRIDE, STRIDE)
            steps.append((target, hand, motion, float(abs(motion).max() < STRIDE / 4)))
            hand = hand + motion
        yield steps


def arm_steps(steps: list[tuple[Any, Any, Any, float]]) -> list[Any]:
    """Return steps with one action of seven numbers, as of BridgeData V2."""
    return [
        {
            "observation": {
                "image_0": picture(24, target, hand),
                "image_1": picture(16, target, hand)[:, ::-1],  # from the other side
                "state": np.array([*hand, 0, 0, 0, 0, 1 - closed], np.float32),
            },
            "action": np.array([*motion, 0, 0, 0, 0, 1 - closed], np.float32),
            "language_instruction": "go to the red dot",
            "is_last": i == len(steps) - 1,
        }
        for i, (target, hand, motion, closed) in enumerate(steps)
    ]


def gantry_steps(steps: list[tuple[Any, Any, Any, float]]) -> list[Any]:
    """Return steps with an action of several features, as of RT-1; units are half as large."""
    return [
        {
            "observation": {
                "image": picture(32, target, hand),
                "base_pose_tool_reached": np.array([*hand * 2, 0, 0, 0, 0, 1], np.float32),
                "gripper_closed": np.array([closed], np.float32),
                "natural_language_instruction": "reach for the dot",
            },
            "action": {
                "world_vector": np.array([*motion * 2, 0], np.float32),
                "rotation_delta": np.zeros(3, np.float32),
                "gripper_closedness_action": np.array([closed * 2 - 1], np.float32),
            },
            "is_last": i == len(steps) - 1,
        }
        for i, (target, hand, motion, closed) in enumerate(steps)
    ]


def numbers(*shape: int) -> Any:
    """Return a connector of float32."""
    return tfds.features.Tensor(shape=shape, dtype=np.float32)


class Arm(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]  # has no types
    """A robot arm with two cameras, in JPEG and PNG."""

    VERSION = tfds.core.Version("1.0.0")
    STEPS: ClassVar[dict[str, Any]] = {
        "observation": {
            "image_0": tfds.features.Image(shape=(24, 24, 3), encoding_format="jpeg"),
            "image_1": tfds.features.Image(shape=(16, 16, 3), encoding_format="png"),
            "state": numbers(7),
        },
        "action": numbers(7),
        "language_instruction": tfds.features.Text(),
        "is_last": np.bool_,
    }

    def _info(self) -> Any:
        features = tfds.features.FeaturesDict({"steps": tfds.features.Dataset(self.STEPS)})
        return tfds.core.DatasetInfo(
            builder=self, description="Made up.", features=features, disable_shuffling=True
        )

    def _split_generators(self, _manager: Any) -> dict[str, Any]:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Iterator[tuple[int, Any]]:
        for number, steps in enumerate(paths(1, 15)):
            yield number, {"steps": arm_steps(steps)}


class Gantry(Arm):
    """A gantry with a camera in PNG."""

    STEPS: ClassVar[dict[str, Any]] = {
        "observation": {
            "image": tfds.features.Image(shape=(32, 32, 3), encoding_format="png"),
            "base_pose_tool_reached": numbers(7),
            "gripper_closed": numbers(1),
            "natural_language_instruction": tfds.features.Text(),
        },
        "action": {
            "world_vector": numbers(3),
            "rotation_delta": numbers(3),
            "gripper_closedness_action": numbers(1),
        },
        "is_last": np.bool_,
    }

    def _generate_examples(self) -> Iterator[tuple[int, Any]]:
        for number, steps in enumerate(paths(2, 30)):
            yield number, {"steps": gantry_steps(steps)}


def make(out: Path) -> None:
    """Write both directories below a folder, which is emptied before."""
    shutil.rmtree(out, ignore_errors=True)
    for builder in (Arm(data_dir=out), Gantry(data_dir=out)):
        builder.download_and_prepare(
            download_config=tfds.download.DownloadConfig(num_shards=2, try_download_gcs=False)
        )
    shutil.rmtree(out / "downloads", ignore_errors=True)


if __name__ == "__main__":
    tfds.disable_progress_bar()
    make(Path(sys.argv[1]) if sys.argv[1:] else OUT)
