"""Columns of boxes and keypoints, which follow the crops of an image."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ... import _core
from ..._images.views import Views
from ..._schema.box_specs import BoxFeature, PlaceFeature
from ..._schema.image_spec import image_of
from ..._schema.nesting import VALID
from ...checks import counted
from ..arrays import Arena, Ints, offsets_of, view_of
from ..layout import Column, Numbers, RaggedColumn
from .base import ColumnBuilder, LocatedBlock
from .image import first_of_group, views_of_group

Floats: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]


class PlacesBuilder(ColumnBuilder):
    """Builder of the column of a BoxFeature or KeypointFeature, and of its mask.

    The native parser writes the numbers of each stored feature, one feature after another.
    """

    feature: PlaceFeature

    def __init__(self, name: str, feature: PlaceFeature, *, in_lists: bool = False) -> None:
        super().__init__(name, feature, in_lists=in_lists)
        self.mask = None if feature.group is None else f"{VALID}/{name}"

    def native_specs(self) -> list[_core.FeatureSpec]:
        keys = self.feature.stored_keys(self.name)
        return [self.native_spec(key, _core.ColumnType.flat) for key in keys]

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        counts = self._counts(block)
        if block.failures:
            return []
        starts = offsets_of(counts)
        count, width = int(starts[-1]), self.feature.num_coordinates
        values = block.layout.reserve_numbers("float32", (count, width))
        part_bytes = values.size // len(self.specs)
        for number in range(len(self.specs)):
            block.set_target(self.first_spec + number, values.moved(number * part_bytes))
        splits = block.reserve_splits([starts], "int64")
        columns: list[Column] = [RaggedColumn(self.name, splits, values)]
        mask: Numbers | None = None
        if self.mask is not None:
            mask = block.layout.reserve_numbers("bool", (count,))
            splits = block.reserve_splits([starts], "int64")
            columns.append(RaggedColumn(self.mask, splits, mask))

        def finish(block: LocatedBlock, arena: Arena) -> None:
            places = view_of(arena, values)
            if len(self.specs) > 1:  # the native parser has written one coordinate after another
                places[...] = places.reshape(width, count).T.copy()
            if mask is not None and not block.failures:
                self._follow_image(block, counts, places, view_of(arena, mask))

        block.finishers.append(finish)
        return columns

    def _counts(self, block: LocatedBlock) -> Ints:
        """Return the number of places of each record; fail records with other numbers of values."""
        keys = self.feature.stored_keys(self.name)
        specs = range(self.first_spec, self.first_spec + len(keys))
        first, *others = (np.diff(block.located.units(spec).values) for spec in specs)
        for spec, found in zip(specs[1:], others, strict=True):
            for record in np.flatnonzero(found != first).tolist():
                values = counted(int(found[record]), "value")
                reason = f"it has {values}, but {keys[0].key!r} has {first[record]}"
                block.fail(record, spec, reason)
        per_place = self.feature.num_coordinates // len(keys)
        for record in np.flatnonzero(first % per_place).tolist():
            values = counted(int(first[record]), "value")
            reason = f"it has {values}, which must be a multiple of {per_place}"
            block.fail(record, self.first_spec, reason)
        return first // per_place

    def _follow_image(self, block: LocatedBlock, counts: Ints, places: Floats, valid: Mask) -> None:
        """Move places as their image is cropped, resized and mirrored; write their mask."""
        feature = self.feature
        assert feature.group is not None
        views = views_of_group(block, feature.group)
        if block.failures:
            return
        image = image_of(first_of_group(block, feature.group).feature)
        assert image is not None
        views = np.repeat(views, counts)
        stored_unit = value_unit = np.ones((1, 1, 2))
        if feature.normalized:
            stored_unit = views["image"][:, np.newaxis]
            value_size = views["size"] if image.size is None else np.array([image.size])
            value_unit = value_size[:, np.newaxis]
        with np.errstate(invalid="ignore", over="ignore"):  # numbers may be infinite
            points = _to_points(places.astype(np.float64), feature.format) * stored_unit
            points = _in_picture(points, views)
            if isinstance(feature, BoxFeature):
                valid[...] = _clip_boxes(points, views, feature.min_size)
            else:
                valid[...] = _mirror_keypoints(points, views)
            points += views["position"][:, np.newaxis]
            places[...] = _from_points(points / value_unit, feature.format)


# ---- geometry ----

# Places are points ``[n, p, 2]``, row and column in pixels: boxes have their first and last corner.


def _to_points(values: Floats, place_format: str) -> Floats:
    """Return places of a format as points, in the same unit."""
    points = values.reshape(len(values), values.shape[1] // 2, 2)
    if not place_format.startswith("y"):
        points = points[..., ::-1]
    if place_format in ("xywh", "cxcywh"):
        first, size = points[:, 0], points[:, 1]
        if place_format == "cxcywh":
            first = first - size / 2
        points = np.stack([first, first + size], 1)
    return points


def _from_points(points: Floats, place_format: str) -> Floats:
    """Return points as places of a format; the inverse of :func:`_to_points`."""
    if place_format in ("xywh", "cxcywh"):
        first, last = points[:, 0], points[:, 1]
        start = (first + last) / 2 if place_format == "cxcywh" else first
        points = np.stack([start, last - first], 1)
    if not place_format.startswith("y"):
        points = points[..., ::-1]
    return points.reshape(len(points), 2 * points.shape[1])


def _in_picture(points: Floats, views: Views) -> Floats:
    """Return points of images as points of the resized pictures, which are not mirrored yet."""
    part = views["part"][:, [[1, 0], [3, 2]]]
    origin = views["box"][:, [1, 0]] + part[:, 0]
    scale = views["size"] / (part[:, 1] - part[:, 0])
    found: Floats = (points - origin[:, np.newaxis]) * scale[:, np.newaxis]
    return found


def _clip_boxes(boxes: Floats, views: Views, min_size: float) -> Mask:
    """Clip boxes to their pictures and mirror them, in place; return which ones are valid."""
    np.clip(boxes, 0, views["size"][:, np.newaxis], out=boxes)
    flips = views["flip"] != 0
    boxes[flips, :, 1] = views["size"][flips, 1:] - boxes[flips, ::-1, 1]
    corners = boxes.astype(np.float32)  # as torchvision computes
    is_large: Mask = corners[:, 1] - corners[:, 0] >= min_size
    return is_large[:, 0] & is_large[:, 1]


def _mirror_keypoints(points: Floats, views: Views) -> Mask:
    """Mirror points, in place; return which ones are in their pictures."""
    flips = views["flip"] != 0
    points[flips, :, 1] = views["size"][flips, 1:] - 1 - points[flips, :, 1]
    point = points[:, 0].astype(np.float32)  # as torchvision computes
    is_inside: Mask = (point >= 0) & (point < views["size"])
    return is_inside[:, 0] & is_inside[:, 1]
