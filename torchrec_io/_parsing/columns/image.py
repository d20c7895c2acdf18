"""Columns of images, which several threads decode, straight into the arena."""

from __future__ import annotations

import math
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ... import _core
from ..._images.bad_value import BadValueError
from ..._images.decode import DecodedImage, decode_image, read_stored_size
from ..._images.geometry import CropKey, KeyFactory, find_view
from ..._images.jitter import change_colors, native_jitter
from ..._images.levels import fill_values, inner_part, value_tables, write_levels
from ..._images.native import column_formats, column_rule, is_fast
from ..._images.random_crop import is_builtin
from ..._images.views import VIEW, Views, shared_crops
from ..._schema.crops import group_of
from ..._schema.image_spec import ImageFeature, image_of
from ..._schema.specs import FixedLenFeature
from ...timing.steps import decoding
from ..arrays import Arena, Ints, view_of
from ..layout import Column, Numbers, Padding
from .base import ColumnBuilder, LocatedBlock
from .decoded import DecodedBuilder, build_decoded
from .elements import ElementDecoder, Elements
from .plain import FixedBuilder

Pixels: TypeAlias = npt.NDArray[Any]

# Loaded with the first feature that a device decodes.
_ENCODED = "torchrec_io._parsing.columns.encoded_image:EncodedImageBuilder"


class ImageValue(NamedTuple):
    """A decoded image, and the shape of its value in the column."""

    shape: tuple[int, ...]
    image: DecodedImage


class ImageJob(NamedTuple):
    """Images that are decoded once the arena is allocated.

    Attributes:
        decoder: Decoder of the images.
        spec: Position of their native spec.
        elements: The images.
        offsets: Offset of the value of each image in the arena; int64 ``[n]``.
        size: Height and width of all values; None for those of each view.
        views: View of each image. Unknown ones are found when the images are decoded.
    """

    decoder: ImageDecoder
    spec: int
    elements: Elements
    offsets: Ints
    size: Sequence[int] | None
    views: Views

    def plan(self, block: LocatedBlock) -> None:
        """Decode the images once the arena is allocated."""
        if not block.image_jobs:
            block.finishers.append(_decode_jobs)
        block.image_jobs.append(self)

    def has_images_of(self, other: ImageJob) -> bool:
        """Return whether the images are those of another job, and decoded in the same way."""
        return (
            self.decoder.formats == other.decoder.formats
            and is_fast(self.decoder.feature) == is_fast(other.decoder.feature)
            and np.array_equal(self.elements.records, other.elements.records)
            and np.array_equal(self.elements.offsets, other.elements.offsets)
        )

    def column(self, block: LocatedBlock, arena: Arena) -> _core.ImageColumn:
        """Return the job for native code."""
        feature, tables = self.decoder.feature, self.decoder.tables
        if feature.resize == "contain" or feature.mixed == "pad":
            fill = fill_values(feature, tables)
            for at in range(len(self.offsets)):
                _channels_last(self.value(arena, at), feature)[...] = fill
        column = self.decoder.column(block, self.elements, self.views)
        column.set_pixels(
            arena,
            self.offsets,
            None if self.size is None else (self.size[0], self.size[1]),
            feature.layout == "CHW",
            feature.channels,
            self.decoder.item_bytes,
            None if tables is None else tables.reshape(-1).view(np.uint8),
        )
        if feature.jitter is not None:
            records = self.elements.records.tolist()
            keys = b"".join(self.decoder.jitter_key(block, each) for each in records)
            column.set_jitter(native_jitter(feature.jitter), keys)
        return column

    def value(self, arena: Arena, position: int) -> Pixels:
        """Return the memory of the value of an image."""
        height, width = self.size or self.views["size"][position].tolist()
        shape = self.decoder.feature.shape_of(height, width)
        return view_of(arena, Numbers(self.decoder.dtype, shape, int(self.offsets[position])))

    def decode_left(self, block: LocatedBlock, arena: Arena, left: Sequence[int]) -> None:
        """Decode the images at some positions one by one."""
        values = self.decoder.sources(block, self.spec, self.elements)
        records = self.elements.records.tolist()

        def decode(at: int) -> None:
            out = self.value(arena, at)
            found = self.decoder.decode(values[at], block, records[at])
            if self.size is None and found.shape != out.shape:
                raise BadValueError("the image has another size than its header says")
            self.decoder.store_in(found, out)

        self.elements.each(block, self.spec, decode, self.decoder.threads(block), left)


def _decode_jobs(block: LocatedBlock, arena: Arena) -> None:
    _decode_together(block, block.image_jobs, arena)


def _decode_together(block: LocatedBlock, jobs: Sequence[ImageJob], arena: Arena) -> None:
    """Decode the images of a block. Those that several columns show are decoded once."""
    while jobs:
        first = jobs[0]
        same = [job for job in jobs if job.has_images_of(first)]
        jobs = [job for job in jobs if not job.has_images_of(first)]
        columns = [job.column(block, arena) for job in same]
        images = first.decoder.images(block, first.spec, first.elements)
        threads = first.decoder.threads(block)
        with decoding():
            for module in first.decoder.formats:
                fast = is_fast(first.decoder.feature)
                helped = module.decode_columns(images, columns, threads, fast=fast)
                _core.add_time(_core.Counter.decoding, helped)
        for job, column in zip(same, columns, strict=True):
            job.decode_left(block, arena, column.missing())


class ImageDecoder(ElementDecoder):
    """Decoder of the values of an ImageFeature.

    Attributes:
        formats: Native modules that decode whole columns; maybe none.
        tables: Value of each level in each channel, ``[C, 256]``; None for the level itself.
        item_bytes: Bytes of a value.
    """

    feature: ImageFeature

    def __init__(self, name: str, feature: ImageFeature) -> None:
        super().__init__(name, feature)
        shape = feature.shape_of(*(feature.size or (0, 0)))
        self.empty_shape = (0, *shape) if feature.animated else shape

        self.tables = value_tables(feature)
        self.item_bytes = 1 if self.tables is None else self.tables.itemsize
        self.formats = column_formats(feature)
        self._group = group_of(feature.augment)
        self._calls_user = feature.augment is not None and not is_builtin(feature.augment)
        self._rule = column_rule(feature)

    def decode(self, value: memoryview, block: LocatedBlock, record: int) -> ImageValue:
        image = decode_image(value, self.feature, self._key(block, record))
        if self.feature.jitter is not None:
            image = change_colors(image, self.feature.jitter, self.jitter_key(block, record))
        *frames, height, width, channels = image.pixels.shape
        height, width = self.feature.size or (height, width)
        return ImageValue((*frames, *self.feature.shape_of(height, width, channels)), image)

    def jitter_key(self, block: LocatedBlock, record: int) -> bytes:
        """Return the key of the random colors of a record; 16 bytes."""
        return block.random_key(record, f"{self.name} jitter")

    def store(self, decoded: ImageValue, out: Pixels) -> None:
        self.store_in(decoded, out.reshape(decoded.shape))

    def store_in(self, decoded: ImageValue, out: Pixels) -> None:
        """Write an image to its value, which may be larger: the image is at the top left then."""
        inner = inner_part(
            _channels_last(out, self.feature),
            decoded.image.position,
            decoded.image.pixels.shape[-3:-1],
            fill_values(self.feature, self.tables),
        )
        write_levels(decoded.image.pixels, inner, self.tables)

    # ---- whole columns ----

    def fill_later(
        self, block: LocatedBlock, spec: int, elements: Elements, numbers: Numbers
    ) -> None:
        size = self.feature.size
        if not self.formats or size is None:
            super().fill_later(block, spec, elements, numbers)
            return
        step = math.prod(numbers.shape[1:]) * self.item_bytes
        offsets = numbers.at + step * np.arange(len(elements.sizes))
        self._plan(block, spec, elements, offsets, size)

    def plan_each(
        self, block: LocatedBlock, spec: int, elements: Elements
    ) -> tuple[list[tuple[int, ...]], Callable[..., None]]:
        """Find the shape of each image. Those that native code cannot decode are decoded.

        Returns:
            The shapes, and a function that stores the images, as for :class:`ElementDecoder`. It
            also takes the height and width of all values; by default they are those of each image.
        """
        views = self._views(block, spec, elements)
        self._find_natively(block, spec, elements, views)
        unknown = np.flatnonzero(views["image"][:, 0] == 0)
        found = self.decode_all(block, spec, elements.at(unknown))
        decoded = {at: image for at, image in zip(unknown.tolist(), found, strict=True) if image}
        shapes = [self.feature.shape_of(*size) for size in views["size"].tolist()]

        def store_later(offsets: Ints, size: tuple[int, int] | None = None) -> None:
            left = np.setdiff1d(np.arange(len(offsets)), unknown)
            if len(left):
                part = elements.at(left)
                ImageJob(self, spec, part, offsets[left], size, views[left]).plan(block)

            def store(block: LocatedBlock, arena: Arena) -> None:
                del block
                for at, image in decoded.items():
                    shape = image.shape if size is None else self.feature.shape_of(*size)
                    numbers = Numbers(self.dtype, shape, int(offsets[at]))
                    self.store_in(image, view_of(arena, numbers))

            block.finishers.append(store)

        return [
            decoded[at].shape if at in decoded else shape for at, shape in enumerate(shapes)
        ], store_later

    def decode_now(self, block: LocatedBlock, spec: int, elements: Elements) -> Pixels:
        """Decode images of the feature's ``size``, which is given, to ``[n, *shape]``."""
        assert self.known_shape is not None
        out = np.empty((len(elements.sizes), *self.known_shape), np.uint8)
        offsets = np.arange(len(out)) * math.prod(self.known_shape)
        if self._calls_user:
            self.find_views(block, spec, elements)
        views = self._views(block, spec, elements)
        job = ImageJob(self, spec, elements, offsets, self.feature.size, views)
        _decode_together(block, [job], out.reshape(-1))
        return out

    def _plan(
        self,
        block: LocatedBlock,
        spec: int,
        elements: Elements,
        offsets: Ints,
        size: Sequence[int] | None,
    ) -> None:
        if self._calls_user:
            self.find_views(block, spec, elements)
        views = self._views(block, spec, elements)
        ImageJob(self, spec, elements, offsets, size, views).plan(block)

    # ---- views ----

    def images(self, block: LocatedBlock, spec: int, elements: Elements) -> _core.StoredImages:
        """Return images for native code."""
        del spec
        return elements.images(block)

    def stored_size(self, value: Any) -> tuple[int, int]:
        """Return the height and width of an image, of :meth:`sources`, after its rotation."""
        return read_stored_size(value, self.feature)

    def find_views(self, block: LocatedBlock, spec: int, elements: Elements) -> Views:
        """Return the view of each image; fail the records of those that have none."""
        views = self._views(block, spec, elements)
        self._find_natively(block, spec, elements, views)
        values, records = self.sources(block, spec, elements), elements.records.tolist()

        def find(at: int) -> None:
            height, width = self.stored_size(values[at])
            view = find_view(self.feature, height, width, self._key(block, records[at]))
            views[at] = ((height, width), *view)

        unknown = np.flatnonzero(views["image"][:, 0] == 0).tolist()
        elements.each(block, spec, find, self.threads(block), unknown)
        return views

    def _find_natively(
        self, block: LocatedBlock, spec: int, elements: Elements, views: Views
    ) -> None:
        """Find the views of images that native code can decode."""
        if self.formats and not self._calls_user:
            column = self.column(block, elements, views)
            images = self.images(block, spec, elements)
            for module in self.formats:
                module.find_views(images, column, self.threads(block))

    def column(self, block: LocatedBlock, elements: Elements, views: Views) -> _core.ImageColumn:
        """Return a column for native code, which finds the views that are not known."""
        keys, shared = None, self._shared_crops(block, elements)
        if self.feature.augment is not None and shared is None and not self._calls_user:
            name = self._group or self.name
            keys = b"".join(block.random_key(each, name) for each in elements.records.tolist())
        return _core.ImageColumn(self._rule, views.view(np.uint8), keys, shared)

    def _views(self, block: LocatedBlock, spec: int, elements: Elements) -> Views:
        """Return the views of images that are known so far."""
        known = block.image_views.get(spec)
        if known is None or not np.array_equal(known[0], elements.numbers):
            known = elements.numbers, np.zeros(len(elements.sizes), VIEW)
            block.image_views[spec] = known
        return known[1]

    def _shared_crops(self, block: LocatedBlock, elements: Elements) -> Any:
        """Return the crops that were chosen for other images, for native code; maybe None."""
        chooser = self._chooser(block)
        if chooser is None:
            return None
        if chooser.name == self.name and (np.diff(elements.records) > 0).all():
            return None  # these are the first images of their records
        views = _first_views(block, chooser)[elements.records]
        return shared_crops(views, chooser.decoder.feature.crop)

    def _chooser(self, block: LocatedBlock) -> Any:
        """Return the builder of the image that crops are chosen for; None for each image itself."""
        if self._group is not None:
            first = first_of_group(block, self._group)
        else:
            first = next(each for each in block.builders if each.name == self.name)
        is_own = first.name == self.name and getattr(first, "sequence", None) is None
        return None if is_own or self.feature.augment is None else first

    def _key(self, block: LocatedBlock, record: int) -> KeyFactory:
        def make_key() -> CropKey:
            key = block.random_key(record, self._group or self.name)
            chooser = self._chooser(block)
            if chooser is None:
                return CropKey(key)
            firsts = _first_elements(block, chooser)
            part = firsts.at(np.flatnonzero(firsts.records == record))
            if not len(part.sizes):
                return CropKey(key)
            decoder = chooser.decoder
            [value] = decoder.sources(block, chooser.first_spec, part)
            try:
                crop = decoder.feature.crop
                return CropKey(key, decoder.stored_size(value) if crop is None else crop[2:])
            except BadValueError as error:
                reason = f"the image of {chooser.name!r}, whose crop it shares: {error}"
                raise BadValueError(reason) from error

        return make_key


def first_of_group(block: LocatedBlock, group: str) -> Any:
    """Return the builder of the image that the crops of a group are chosen for."""
    images = ((each, image_of(each.feature)) for each in block.builders)
    return next(
        builder
        for builder, image in images
        if image is not None and group_of(image.augment) == group
    )


def _first_elements(block: LocatedBlock, builder: Any) -> Elements:
    """Return the first image of each record that has one."""
    elements = Elements.of(block, builder.first_spec)
    return elements.at(elements.stored[:-1][np.diff(elements.stored) > 0])


def _first_views(block: LocatedBlock, builder: Any) -> Views:
    """Return the view of the first image of each record, or zeros; ``[B]``."""
    elements = _first_elements(block, builder)
    views = np.zeros(len(block), VIEW)
    views[elements.records] = builder.decoder.find_views(block, builder.first_spec, elements)
    return views


def views_of_group(block: LocatedBlock, group: str) -> Views:
    """Return the views that the crops of a group are chosen for, one for each record; ``[B]``.

    Records fail whose image has none. The row of a record without an image is zeros.
    """
    return _first_views(block, first_of_group(block, group))


class _PaddedImageBuilder(DecodedBuilder):
    """Builder of one column of images of different sizes, padded to the largest."""

    feature: ImageFeature
    decoder: ImageDecoder

    def __init__(self, name: str, feature: ImageFeature, *, in_lists: bool = False) -> None:
        super().__init__(name, feature, in_lists=in_lists)
        axes = (1, 2) if feature.layout == "CHW" else (0, 1)
        fill = fill_values(feature, self.decoder.tables)[0].item()
        self.padding: Padding = Padding(f"{name}\0lengths", fill, axes)

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        elements = Elements.of(block, self.first_spec)
        shapes, store_later = self.decoder.plan_each(block, self.first_spec, elements)
        if block.failures:
            return []
        axes = [1, 2] if self.feature.layout == "CHW" else [0, 1]
        sides = np.array(shapes, np.int64).reshape(-1, 3)[:, axes]
        height, width = sides.max(axis=0, initial=0).tolist()
        lengths = block.layout.reserve_dense((self.padding.lengths,), "int64", sides.shape)
        block.write_later(Numbers("int64", lengths.shape, lengths.at), sides)
        shape = self.feature.shape_of(height, width)
        column = block.layout.reserve_dense((self.name,), self.decoder.dtype, (len(sides), *shape))
        step = math.prod(shape) * self.decoder.item_bytes
        offsets = column.at + step * np.arange(len(sides))
        store_later(offsets, (height, width))
        return [lengths, column]


def build_image(name: str, feature: ImageFeature, *, in_lists: bool = False) -> ColumnBuilder:
    """Return the builder of the column of an ImageFeature."""
    if feature.decoder is None:
        return FixedBuilder(name, FixedLenFeature([], "string", key=feature.key))
    if feature.decoder == "cuda":
        builder: type[ColumnBuilder] = pkgutil.resolve_name(_ENCODED)
        return builder(name, feature, in_lists=in_lists)
    if feature.mixed == "pad":
        return _PaddedImageBuilder(name, feature, in_lists=in_lists)
    return build_decoded(name, feature, in_lists=in_lists)


def _channels_last(value: Pixels, feature: ImageFeature) -> Pixels:
    """Return a value in the layout HWC, in the same memory."""
    return value.transpose(_CHANNELS_LAST[value.ndim]) if feature.layout == "CHW" else value


# Axes of "CHW" in the order of "HWC", by the number of dimensions.
_CHANNELS_LAST = {3: (1, 2, 0), 4: (0, 2, 3, 1)}
