"""Preset of datasets with several views of scenes."""

from __future__ import annotations

from .._schema.image_spec import ImageFeature
from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature
from .._schema.stored_specs import SequenceFeature

_CAMERA = 5  # x, y, z, yaw, pitch


def gqn(
    sequence_length: int = 10, frame_size: int = 64, *, image: ImageFeature | None = None
) -> Schema:
    """Return the schema of the datasets of Generative Query Networks (GQN).

    ``frames`` is uint8 ``[B, sequence_length, 3, size, size]``. ``cameras`` is float32
    ``[B, sequence_length, 5]``: x, y, z, yaw and pitch of each view.

    | dataset | ``sequence_length`` | ``frame_size`` |
    | --- | --- | --- |
    | jaco | 11 | 64 |
    | mazes | 300 | 84 |
    | rooms_free_camera_with_object_rotations | 10 | 128 |
    | rooms_free_camera_no_object_rotations, rooms_ring_camera | 10 | 64 |
    | shepard_metzler_5_parts, shepard_metzler_7_parts | 15 | 64 |

    Source: deepmind/gqn-datasets, ``data_reader.py``.

    Args:
        sequence_length: Number of views of each scene. Default: 10.
        frame_size: Height and width of a frame. Default: 64.
        image: Spec of a frame. Default:
            ``ImageFeature(size=(frame_size, frame_size), resize=None)``.
    """
    if image is None:
        image = ImageFeature(size=(frame_size, frame_size), resize=None)
    return Schema(
        {
            "frames": SequenceFeature(image, length=sequence_length),
            "cameras": FixedLenFeature([sequence_length, _CAMERA], "float32"),
        }
    )
