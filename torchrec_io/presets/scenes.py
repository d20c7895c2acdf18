"""Scenes from several views."""

from __future__ import annotations

from ..schema.image_spec import ImageFeature
from ..schema.schema import Schema
from ..schema.specs import FixedLenFeature
from ..schema.stored_specs import SequenceFeature

_CAMERA = 5  # x, y, z, yaw, pitch


def gqn(
    sequence_length: int = 10, frame_size: int = 64, *, image: ImageFeature | None = None
) -> Schema:
    """The scenes that Generative Query Networks were trained on.

    ``frames`` is ``[B, sequence_length, 3, size, size]`` of uint8, ``cameras`` float32
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
        sequence_length: Views of each scene.
        frame_size: Height and width of a frame.
        image: How frames are decoded, in place of
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
