"""Write small RLDS datasets with TFDS, and windows of their steps that tf.data computes.

The committed files in ``robots/`` were written by tensorflow-datasets 4.9.10. Run this script with
the Python of an environment that has it and ``tensorflow-cpu``; the files are the same every time,
to another folder if one is named: ``python tests/data/make_robots_golden.py [FOLDER]``.

The windows are those of Octo (``octo/data/traj_transforms.py``, ``chunk_act_obs``): each step of an
episode with the steps at some offsets from it, clamped to the episode. ``README.md`` describes the
form of ``expected.npz``, and ``robot_cases.py`` has the cases.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Must be set before TensorFlow is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1])]

import tensorflow as tf  # noqa: E402
import tensorflow_datasets as tfds  # noqa: E402

from tests.data.make_tfds_golden import write  # noqa: E402
from tests.data.robot_cases import CASES, LENGTHS, STATISTICS, Case  # noqa: E402
from tests.data.tfds_cases.build import Golden, dataset  # noqa: E402

OUT = HERE / "robots"
COLORS = ["red", "blue", "green"]


def decode_jpeg(data: Any) -> Any:
    return tf.io.decode_jpeg(data, dct_method="INTEGER_ACCURATE")


DECODERS = {"front": decode_jpeg, "side": decode_jpeg, "wrist": tf.io.decode_png}


# ---- the datasets ----


def frame(number: int, height: int, width: int) -> Any:
    """Return a smooth image that differs for each number."""
    rows, columns = np.mgrid[:height, :width]
    planes = [rows * 9 + number * 5, columns * 7 + number * 11, rows + columns + number * 17]
    return np.stack(planes, -1).astype(np.uint8)


def numbers(rng: np.random.Generator, *shape: int) -> Any:
    return rng.normal(0.3, 0.8, shape).astype(np.float32)


def arm() -> Golden:
    """Return a robot arm with two cameras in JPEG and one in PNG."""
    rng = np.random.default_rng(1)
    image = tfds.features.Image
    features = {
        "steps": tfds.features.Dataset(
            {
                "observation": {
                    "front": image(shape=(8, 16, 3), encoding_format="jpeg"),
                    "side": image(shape=(16, 8, 3), encoding_format="jpeg"),
                    "wrist": image(shape=(6, 5, 3), encoding_format="png"),
                    "state": tfds.features.Tensor(shape=(5,), dtype=np.float32),
                },
                "action": tfds.features.Tensor(shape=(4,), dtype=np.float32),
                "reward": np.float32,
                "is_first": np.bool_,
                "is_last": np.bool_,
                "is_terminal": np.bool_,
                "language_instruction": tfds.features.Text(),
            }
        ),
        "episode_metadata": {"file_path": tfds.features.Text()},
    }
    records = []
    for episode, length in enumerate(LENGTHS["arm"]):
        steps = [
            {
                "observation": {
                    "front": frame(7 * episode + i, 8, 16),
                    "side": frame(7 * episode + i + 100, 16, 8),
                    "wrist": frame(7 * episode + i + 200, 6, 5),
                    "state": numbers(rng, 5),
                },
                "action": numbers(rng, 4),
                "reward": np.float32(i == length - 1),
                "is_first": i == 0,
                "is_last": i == length - 1,
                "is_terminal": i == length - 1 and episode % 2 == 0,
                "language_instruction": f"put the {COLORS[episode % 3]} one away",
            }
            for i in range(length)
        ]
        records.append({"steps": steps, "episode_metadata": {"file_path": f"/arm/{episode}"}})
    return dataset("arm", features, records, shards=2)


def rover() -> Golden:
    """Return another robot without images, with other names, and a long episode."""
    rng = np.random.default_rng(2)
    features = {
        "steps": tfds.features.Dataset(
            {
                "observation": {
                    "joints": tfds.features.Tensor(shape=(3,), dtype=np.float32),
                    "task": tfds.features.Text(),
                },
                "action": {
                    "base": tfds.features.Tensor(shape=(2,), dtype=np.float32),
                    "gripper": np.float32,
                },
                "is_terminal": np.bool_,
            }
        ),
    }
    records = [
        {
            "steps": [
                {
                    "observation": {"joints": numbers(rng, 3), "task": f"go to {episode}"},
                    "action": {"base": numbers(rng, 2), "gripper": np.float32(i % 10 < 5)},
                    "is_terminal": i == length - 1,
                }
                for i in range(length)
            ]
        }
        for episode, length in enumerate(LENGTHS["rover"])
    ]
    return dataset("rover", features, records)


# ---- what TFDS and tf.data make of them ----


def episodes(folder: Path) -> Iterator[Any]:
    """Yield the steps of each episode as Tensors ``[length, ...]``, nested as TFDS nests them."""
    builder = tfds.builder_from_directory(folder)
    skipped = {
        name: tfds.decode.SkipDecoding()
        for name, feature in builder.info.features["steps"].feature["observation"].items()
        if isinstance(feature, tfds.features.Image)
    }
    decoders = {"steps": {"observation": skipped}} if skipped else None
    for episode in builder.as_dataset("train", decoders=decoders):
        steps = episode["steps"]
        yield steps.batch(int(steps.cardinality())).map(decoded).get_single_element()


def decoded(steps: Any) -> Any:
    """Decode the images. JPEGs are decoded exactly, unlike in TFDS's reader for TensorFlow."""
    observation = {
        name: tf.map_fn(DECODERS[name], value, fn_output_signature=tf.uint8)
        if name in DECODERS
        else value
        for name, value in steps["observation"].items()
    }
    return {**steps, "observation": observation}


def feature_of(steps: Any, name: str) -> Any:
    for key in name.split("/"):
        steps = steps[key]
    return steps


def windows(case: Case, steps: Any) -> dict[str, Any]:
    """Return the windows of an episode by feature, and which steps are in the episode."""
    length = int(feature_of(steps, case.features[0]).shape[0])
    starts = tf.range(0, length, case.stride)
    found: dict[str, Any] = {}
    inside = tf.ones(len(starts), tf.bool)
    for name in case.features:
        offsets = case.offsets_of(name)
        wanted = starts[:, None] + tf.constant(
            [offsets] if isinstance(offsets, int) else [*offsets]
        )
        valid = (wanted >= 0) & (wanted < length)
        inside &= tf.reduce_all(valid, 1)
        values = tf.gather(feature_of(steps, name), tf.clip_by_value(wanted, 0, length - 1))
        if case.outside == "zeros":
            shape = valid.shape + [1] * (len(values.shape) - 2)
            zero = "" if values.dtype == tf.string else tf.zeros([], values.dtype)
            values = tf.where(tf.reshape(valid, shape), values, zero)
        found[name] = values[:, 0] if isinstance(offsets, int) else values
        if not isinstance(offsets, int):
            found[f"valid {name}"] = valid
    if case.outside == "drop":
        found = {name: tf.boolean_mask(value, inside) for name, value in found.items()}
    return found


def expected(out: Path) -> dict[str, Any]:
    """Return all arrays of ``expected.npz``."""
    arrays = {}
    for name, case in CASES.items():
        parts = [windows(case, steps) for steps in episodes(out / case.dataset / "1.0.0")]
        for key in parts[0]:
            values = np.concatenate([part[key].numpy() for part in parts])
            arrays[f"{name}: {key}"] = values.astype("S") if values.dtype == object else values
    for name, features in STATISTICS.items():
        whole = [{"steps": steps} for steps in episodes(out / name / "1.0.0")]
        for feature in features:
            steps = [feature_of(each, feature) for each in whole]
            values = np.concatenate(steps).astype(np.float64)
            rows = [values.mean(0), values.std(0), values.min(0), values.max(0)]
            rows += [np.quantile(values, q, axis=0) for q in (0.01, 0.99)]
            arrays[f"statistics: {name}: {feature}"] = np.stack(rows)
    return arrays


def make(out: Path) -> None:
    """Write the directories and ``expected.npz`` below a folder, which is emptied before."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for golden in (arm(), rover()):
        write(golden, out)
    shutil.rmtree(out / "downloads", ignore_errors=True)
    arrays = expected(out)
    np.savez_compressed(out / "expected.npz", **arrays)
    print(f"{len(arrays)} arrays")


if __name__ == "__main__":
    tfds.disable_progress_bar()
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
