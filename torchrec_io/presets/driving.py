"""Presets of driving datasets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._schema.dtypes import DType
from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature

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
    roadgraph = "roadgraph_samples"
    features |= _fixed(roadgraph, ("xyz", "dir"), [roadgraph_points, 3], "float32")
    features |= _fixed(roadgraph, ("type", "valid", "id"), [roadgraph_points, 1], "int64")
    features |= _fixed("state", ("id", "type"), [_OBJECTS], "float32")
    flags = ("is_sdc", "tracks_to_predict", "objects_of_interest")
    features |= _fixed("state", flags, [_OBJECTS], "int64")
    for when, steps in _STEPS.items():
        if when != "future" or future:
            objects = f"state/{when}"
            features |= _fixed(objects, _STATE_FLOATS, [_OBJECTS, steps], "float32")
            features |= _fixed(objects, ("valid", "timestamp_micros"), [_OBJECTS, steps], "int64")
        if when != "future":
            lights = f"traffic_light_state/{when}"
            features |= _fixed(lights, ("state", "valid", "id"), [steps, _LIGHTS], "int64")
            features |= _fixed(lights, ("x", "y", "z"), [steps, _LIGHTS], "float32")
    return Schema(features)


def _fixed(prefix: str, names: Iterable[str], shape: list[int], dtype: DType) -> dict[str, Any]:
    return {f"{prefix}/{name}": FixedLenFeature(shape, dtype) for name in names}
