"""What cars see and where others go."""

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
    """The Waymo Open Motion Dataset as ``tf.Example``.

    ``state/{past,current,future}/...`` is ``[B, 128, steps]`` of 10, 1 and 80 steps,
    ``traffic_light_state/{past,current}/...`` ``[B, steps, 16]``, ``roadgraph_samples/...``
    ``[B, points, 3]`` or ``[B, points, 1]``, and what an object has once ``[B, 128]``. Coordinates
    and sizes (meters), yaws (radians), velocities (meters a second), directions, ``state/id`` and
    ``state/type`` are float32, ``scenario/id`` is bytes, and the rest int64. What is not valid is
    -1. As in the tutorial, some of what is stored is not read: ``state/difficulty_level``,
    ``state/.../speed``, ``traffic_light_state/.../timestamp_micros`` and lights of the future.

    Source: https://waymo.com/open/data/motion/tfexample and waymo-research/waymo-open-dataset,
    ``tutorial/tutorial_motion.ipynb``.

    Args:
        roadgraph_points: Samples of the map in each record: 30,000 since version 1.2, before that
            20,000.
        future: Read where objects are after the current step. Test data has none of that.
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
            features |= _objects(f"state/{when}", [_OBJECTS, steps])
        if when != "future":
            features |= _lights(f"traffic_light_state/{when}", [steps, _LIGHTS])
    return Schema(features)


def _objects(prefix: str, shape: list[int]) -> dict[str, Any]:
    features = {f"{prefix}/{name}": FixedLenFeature(shape, "float32") for name in _STATE_FLOATS}
    for name in ("valid", "timestamp_micros"):
        features[f"{prefix}/{name}"] = FixedLenFeature(shape, "int64")
    return features


def _lights(prefix: str, shape: list[int]) -> dict[str, Any]:
    features = {
        f"{prefix}/{name}": FixedLenFeature(shape, "int64") for name in ("state", "valid", "id")
    }
    return features | {f"{prefix}/{name}": FixedLenFeature(shape, "float32") for name in "xyz"}
