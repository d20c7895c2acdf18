"""Presets of driving datasets."""

from __future__ import annotations

from typing import Any

from ..schema.schema import Schema
from ..schema.specs import FixedLenFeature

_OBJECTS, _LIGHTS = 128, 16
_STEPS = {"past": 10, "current": 1, "future": 80}
_STATE_FLOATS = (
    *("x", "y", "z", "bbox_yaw", "length", "width", "height"),
    *("vel_yaw", "velocity_x", "velocity_y"),
)


def waymo_motion(*, roadgraph_points: int = 30_000, future: bool = True) -> Schema:
    """Return the schema of the Waymo Open Motion Dataset as ``tf.Example``.

    | features | column |
    | --- | --- |
    | ``state/{past,current,future}/...`` | ``[B, 128, steps]`` of 10, 1 and 80 steps |
    | other ``state/...`` | ``[B, 128]``, one value for each object |
    | ``traffic_light_state/{past,current}/...`` | ``[B, steps, 16]`` of 10 and 1 steps |
    | ``roadgraph_samples/...`` | ``[B, points, 3]`` or ``[B, points, 1]`` |
    | ``scenario/id`` | bytes ``[B]`` |

    Coordinates and sizes (meters), yaws (radians), velocities (meters per second), directions,
    ``state/id`` and ``state/type`` are float32; other numbers are int64. Invalid values are -1.
    Like the tutorial, the schema leaves out ``state/difficulty_level``, ``state/.../speed``,
    ``traffic_light_state/.../timestamp_micros`` and the traffic lights of the future.

    Source: https://waymo.com/open/data/motion/tfexample and waymo-research/waymo-open-dataset,
    ``tutorial/tutorial_motion.ipynb``.

    Args:
        roadgraph_points: Number of map samples in each record: 30,000 since version 1.2, 20,000
            before. Default: 30,000.
        future: Whether to read the objects after the current step. Test data does not have them.
            Default: True.
    """
    features: dict[str, Any] = {"scenario/id": FixedLenFeature([], "string")}
    for name, size, dtype in (
        ("xyz", 3, "float32"),
        ("dir", 3, "float32"),
        *((name, 1, "int64") for name in ("type", "valid", "id")),
    ):
        features[f"roadgraph_samples/{name}"] = FixedLenFeature([roadgraph_points, size], dtype)
    for name in ("id", "type"):
        features[f"state/{name}"] = FixedLenFeature([_OBJECTS], "float32")
    for name in ("is_sdc", "tracks_to_predict", "objects_of_interest"):
        features[f"state/{name}"] = FixedLenFeature([_OBJECTS], "int64")
    for when, steps in _STEPS.items():
        if when != "future" or future:
            features |= _object_features(f"state/{when}", [_OBJECTS, steps])
        if when != "future":
            features |= _light_features(f"traffic_light_state/{when}", [steps, _LIGHTS])
    return Schema(features)


def _object_features(prefix: str, shape: list[int]) -> dict[str, Any]:
    features = {f"{prefix}/{name}": FixedLenFeature(shape, "float32") for name in _STATE_FLOATS}
    for name in ("valid", "timestamp_micros"):
        features[f"{prefix}/{name}"] = FixedLenFeature(shape, "int64")
    return features


def _light_features(prefix: str, shape: list[int]) -> dict[str, Any]:
    features = {
        f"{prefix}/{name}": FixedLenFeature(shape, "int64") for name in ("state", "valid", "id")
    }
    return features | {f"{prefix}/{name}": FixedLenFeature(shape, "float32") for name in "xyz"}
