"""Episodes of a robot as TFDS stores RLDS data, for ``episodes.py`` and ``rlds_or_convert.py``."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import torchrec_io as tio

EPISODES, STEPS, HORIZON = 24, 250, 16
CAMERAS = ("front", "wrist")
HEIGHT, WIDTH = 180, 320

_FEATURES = "tensorflow_datasets.core.features"


def write_episodes(folder: Path, episodes: int) -> Path:
    """Write a TFDS directory of episodes, a record each; return the path of its only shard."""
    rng = np.random.default_rng(1)
    path = folder / "robot-train.tfrecord-00000-of-00001"
    with tio.TFRecordWriter(path) as writer:
        for _ in range(episodes):
            record: dict[str, Any] = {
                f"steps/observation/{name}": [_picture(rng) for _ in range(STEPS)]
                for name in CAMERAS
            }
            for name in ("action", "observation/state"):
                record[f"steps/{name}"] = rng.normal(size=STEPS * 7).astype(np.float32)
            writer.write(record)
    image = {
        "pythonClassName": f"{_FEATURES}.image_feature.Image",
        "image": {
            "shape": {"dimensions": [str(HEIGHT), str(WIDTH), "3"]},
            "dtype": "uint8",
            "encodingFormat": "jpeg",
        },
    }
    numbers = {
        "pythonClassName": f"{_FEATURES}.tensor_feature.Tensor",
        "tensor": {"shape": {"dimensions": ["7"]}, "dtype": "float32", "encoding": "none"},
    }
    observation = _dict_of({**dict.fromkeys(CAMERAS, image), "state": numbers})
    step = _dict_of({"observation": observation, "action": numbers})
    steps = {
        "pythonClassName": f"{_FEATURES}.dataset_feature.Dataset",
        "sequence": {"feature": step, "length": "-1"},
    }
    (folder / "features.json").write_text(json.dumps(_dict_of({"steps": steps})))
    split = {
        "name": "train",
        "shardLengths": [str(episodes)],
        "numBytes": str(path.stat().st_size - 16 * episodes),
        "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
    }
    info = {"name": "robot", "version": "1.0.0", "fileFormat": "tfrecord", "splits": [split]}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    return path


def _dict_of(features: dict[str, Any]) -> dict[str, Any]:
    return {
        "pythonClassName": f"{_FEATURES}.features_dict.FeaturesDict",
        "featuresDict": {"features": features},
    }


def _picture(rng: np.random.Generator) -> bytes:
    small = Image.fromarray(rng.integers(0, 256, (18, 32, 3), np.uint8))
    image = np.asarray(small.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC), np.int16)
    noisy = (image + rng.integers(-6, 7, image.shape)).clip(0, 255).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(noisy).save(out, "JPEG", quality=90)
    return out.getvalue()
