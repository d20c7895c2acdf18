"""Specs of boxes and keypoints in images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

from ..checks import check_choice
from ..errors import SchemaError
from .checks import check_key, set_fields
from .crops import group_of, is_number
from .feature import Feature
from .image_spec import image_of
from .nesting import VALID
from .specs import VarLenFeature
from .stored_keys import StoredCount, StoredKey

BoxFormat = Literal["yxyx", "xyxy", "xywh", "cxcywh"]


@dataclass(frozen=True)
class PlaceFeature(Feature, is_abstract=True):
    """Base of places in an image, which have some coordinates each.

    Attributes:
        formats: Possible formats.
        num_coordinates: Number of coordinates of each place.
    """

    column = "torchrec_io._parsing.columns.boxes:PlacesBuilder"
    formats: ClassVar[tuple[str, ...]]
    num_coordinates: ClassVar[int]
    dtype = "float32"

    keys: str | Sequence[str] | None = None
    _: KW_ONLY
    group: str | None = None
    format: str = ""
    normalized: bool = True

    def __post_init__(self) -> None:
        if self.keys is not None:
            set_fields(self, keys=self._check_keys(self.keys))
        if self.group is not None:
            check_key("group", self.group, "a group")
        check_choice("format", self.format, self.formats, SchemaError)
        set_fields(self, normalized=bool(self.normalized))

    def _check_keys(self, keys: Any) -> str | tuple[str, ...]:
        names = tuple(keys) if isinstance(keys, (list, tuple)) else (keys,)
        for each in names:
            check_key("keys", each)
        if isinstance(keys, str):
            return keys
        if not len(set(names)) == len(names) == self.num_coordinates:
            raise SchemaError(
                f"keys must be the name of a feature, or of {self.num_coordinates} different "
                f"features, got {keys!r}"
            )
        return names

    def check_beside(self, name: str, features: Mapping[str, Feature]) -> None:
        """Check that the group has an image, and that no feature has the name of the masks."""
        if self.group is None:
            return
        images = [image for spec in features.values() if (image := image_of(spec)) is not None]
        groups = sorted({found for each in images if (found := group_of(each.augment))})
        if self.group not in groups:
            known = f"; the groups of images are {groups}" if groups else ""
            raise SchemaError(
                f"no image has the group {self.group!r}: give one of them "
                f"augment=tio.RandomResizedCrop(group={self.group!r}) or another function of this "
                f"group{known}"
            )
        if any(f"{each}/".startswith(f"{VALID}/") for each in features):
            raise SchemaError(
                f"batches have a dict {VALID!r} with the mask of {name!r}: give the feature of "
                "that name another one, with key=",
                feature=VALID,
            )

    def stored_keys(self, name: str) -> list[StoredKey]:
        keys = self.keys or name
        names = [keys] if isinstance(keys, str) else keys
        return [StoredKey(each, "sparse", "float32") for each in names]

    def length_count(self, name: str) -> StoredCount | None:
        keys = self.stored_keys(name)
        return StoredCount(keys[0].key, "float32", self.num_coordinates // len(keys))

    def as_stored(self, name: str) -> Feature:
        return VarLenFeature("float32", key=self._only_key(name))


@dataclass(frozen=True)
class BoxFeature(PlaceFeature):
    """Any number of boxes in an image, which follow its crop, resize and flip.

    The column is a :class:`Ragged` of float32 values ``[N, 4]``, in the order stored. A record
    without the features has no boxes. ``BoxFeature(("ymin", "xmin", "ymax", "xmax"))`` reads the
    boxes of TensorFlow's object detection API, ``BoxFeature("objects/bbox")`` those of TensorFlow
    Datasets.

    With ``group``, boxes are those of the group's first image in the schema; of a sequence, those
    of the first image of each record, without which no box is valid. They are cropped,
    resized and mirrored like it, and clipped to its picture, which is the column's value without
    fill. ``batch.valid[name]`` is a Ragged of bool ``[N]``: whether at least ``min_size`` pixels of
    a box are left in height and width. Boxes are not removed, so that labels keep their positions.
    The rules are those of ``crop_bounding_boxes``, ``resize_bounding_boxes``,
    ``horizontal_flip_bounding_boxes`` and ``sanitize_bounding_boxes`` (without ``min_area``) of
    torchvision 0.29 (``transforms/v2/functional``). As there, a box whose ends are in the wrong
    order stays so, NaN stays NaN, and neither is valid.

    Without ``group``, boxes are as they are stored, and there is no mask.

    Args:
        keys: Name of the stored feature that has four numbers for each box, one box after another;
            by default this feature's own name. Or the names of four stored features of one length,
            each with one coordinate of every box, in the order of ``format``.
        group: Group of the ``augment`` function of an :class:`ImageFeature`. An image without
            random crops has one with ``augment=tio.RandomFlip(0, group="view")``.
        format: Order and meaning of the numbers, both stored and in the column: "yxyx", top, left,
            bottom and right; "xyxy", left, top, right and bottom; "xywh", left, top, width and
            height; or "cxcywh", center, width and height.
        normalized: Whether numbers are fractions of the height and width: stored ones of the image
            (after its rotation), those of the column of the column's value. An image that
            ``mixed="pad"`` pads has its own size. Otherwise numbers are pixels.
        min_size: Smallest height and width of a valid box, in pixels of the value.

    Raises:
        SchemaError: If an argument is not one of the above, no image has the group, or a feature
            has the name "valid", which is that of the masks.
    """

    formats = ("yxyx", "xyxy", "xywh", "cxcywh")
    num_coordinates = 4

    _: KW_ONLY
    format: BoxFormat = "yxyx"
    min_size: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_number(self.min_size) or self.min_size < 0:
            raise SchemaError(f"min_size must be a non-negative number, got {self.min_size!r}")
        set_fields(self, min_size=float(self.min_size))


@dataclass(frozen=True)
class KeypointFeature(PlaceFeature):
    """Any number of points in an image, which follow its crop, resize and flip.

    The column is a :class:`Ragged` of float32 values ``[N, 2]``, in the order stored. A record
    without the features has no points.

    With ``group``, points follow an image as those of a :class:`BoxFeature` do, but they are not
    clipped. ``batch.valid[name]`` is a Ragged of bool ``[N]``: whether a point is in the picture.
    The rules are those of ``crop_keypoints``, ``resize_keypoints``, ``horizontal_flip_keypoints``
    and ``sanitize_keypoints`` of torchvision 0.29 (``transforms/v2/functional``): a point is the
    position of a pixel, so a picture of W pixels mirrors the column x to W - 1 - x. NaN stays NaN,
    and is not valid.

    Without ``group``, points are as they are stored, and there is no mask.

    Args:
        keys: Name of the stored feature that has two numbers for each point, one point after
            another; by default this feature's own name. Or the names of two stored features of one
            length, each with one coordinate of every point, in the order of ``format``.
        group: Group of the ``augment`` function of an image, as for :class:`BoxFeature`.
        format: Order of the coordinates, "yx" or "xy".
        normalized: Whether numbers are fractions of the height and width, as for
            :class:`BoxFeature`. Otherwise they are pixels.

    Raises:
        SchemaError: As for :class:`BoxFeature`.
    """

    formats = ("yx", "xy")
    num_coordinates = 2

    _: KW_ONLY
    format: Literal["yx", "xy"] = "yx"
