"""Columns of encoded images, which are decoded on the device that a batch is moved to."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .. import _core
from .._images.bad_value import BadValueError
from .._images.views import VIEW, Views
from .._parsing.threads import default_threads
from .._schema.crops import Crop
from .._schema.image_spec import ImageFeature
from ..errors import DecodeError

if TYPE_CHECKING:
    from .ragged import BytesArray


# Whole images that a device holds while it decodes; 3 bytes each. A batch of 256 from ImageNet has
# half as many.
_MOST_PIXELS = 1 << 27


class EncodedImages:
    """A column of images that were not decoded yet: ``ImageFeature(decoder="cuda")``.

    ``batch.to(device)`` decodes it to the Tensor that other decoders give, and so do
    :class:`DevicePrefetcher` and :func:`make_loader` with a device.

    Args:
        name: Flat name of the column.
        stored: A view and an image for each record; see
            :class:`torchrec_io._parsing.columns.encoded_image.EncodedImageBuilder`.
        feature: Spec of the images, without ``crop`` and ``augment``.
    """

    def __init__(self, name: str, stored: BytesArray, feature: ImageFeature) -> None:
        self._name = name
        self._stored = stored
        self._feature = feature

    def __len__(self) -> int:
        return len(self._stored)

    def __repr__(self) -> str:
        shape = [len(self), *(self._feature.known_shape or ())]
        return f"EncodedImages({self._feature.dtype}{shape} once decoded; see batch.to(device))"

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Tensor:
        """Decode the images.

        Args:
            device: Device of the Tensor. On CUDA, nvJPEG decodes JPEGs.
            non_blocking: Ignored: the CPU waits until the images are decoded.

        Returns:
            The Tensor ``[B, C, H, W]``, or ``[B, H, W, C]``, of the feature's ``dtype``.

        Raises:
            DecodeError: If an image cannot be decoded, also not by the CPU.
            ImportError: If torchcodec is missing, for a CUDA device.
        """
        del non_blocking
        device, feature = torch.device(device), self._feature
        values = self._stored.views()
        heads = [value[: VIEW.itemsize].numpy().tobytes() for value in values]
        views = np.frombuffer(b"".join(heads), VIEW)
        images = [value[VIEW.itemsize :] for value in values]
        jpegs = np.flatnonzero(views["image"][:, 0]).tolist()
        assert feature.size is not None
        height, width = feature.size
        shape = (len(images), feature.channels, height, width)
        levels = torch.full(shape, feature.fill, dtype=torch.uint8, device=device)
        decoder, left = decoder_of(device), jpegs
        if decoder is not None:
            mode = "RGB" if feature.channels == 3 else "GRAY"
            decode = functools.partial(decoder, mode=mode, device=device)
            left = []
            for group in _groups(jpegs, views):
                found = _decode_together(decode, [images[at] for at in group])
                for at, image in zip(group, found, strict=True):
                    if image is None or list(image.shape[1:]) != views["image"][at].tolist():
                        left.append(at)
                    else:
                        _write_view(image, views[at], levels[at])
        decoded = self._decode_on_cpu(images, views, left)
        for at in np.flatnonzero(views["image"][:, 0] == 0).tolist():
            decoded[at] = images[at].view(height, width, feature.channels)
        for at, pixels in decoded.items():
            levels[at] = pixels.permute(2, 0, 1).to(device)
        return _values_of(levels, feature)

    def _decode_on_cpu(
        self, images: Sequence[Tensor], views: Views, left: Sequence[int]
    ) -> dict[int, Tensor]:
        """Decode some of the images on the CPU, to levels ``[H, W, C]``."""
        from .._images.native import column_formats, column_rule  # noqa: PLC0415  # loads Pillow

        feature, (height, width) = _levels_of(self._feature), self._feature.size or (0, 0)
        shape = len(left), height, width, feature.channels
        out = np.full(shape, feature.fill, np.uint8)
        files = tuple(images[at].numpy().tobytes() for at in left)
        count = np.arange(len(left))
        stored = _core.StoredImages(
            _core.Records(files),
            count,
            np.zeros_like(count),
            np.array([*map(len, files)], np.int64),
        )
        column = _core.ImageColumn(column_rule(feature), views[list(left)].view(np.uint8))
        offsets = count * (height * width * feature.channels)
        column.set_pixels(
            out.reshape(-1), offsets, (height, width), False, feature.channels, 1, None
        )
        for module in column_formats(feature):
            module.decode_columns(stored, [column], default_threads())
        for number in column.missing():
            at = left[number]
            try:
                out[number] = _levels_by_cpu(images[at].numpy(), views[at], feature)
            except BadValueError as error:
                raise DecodeError(str(error), record=at, feature=self._name) from error
        return {at: torch.from_numpy(out[number]) for number, at in enumerate(left)}


def _levels_of(feature: ImageFeature) -> ImageFeature:
    """Return the spec of the levels of images, decoded by the CPU to ``[H, W, C]``."""
    return replace(feature, decoder="auto", dtype="uint8", layout="HWC", mean=None, std=None)


def _groups(jpegs: Sequence[int], views: Views) -> Iterator[list[int]]:
    """Yield JPEGs that are decoded together: up to a number of pixels, or a single one."""
    group: list[int] = []
    pixels = 0
    for at in jpegs:
        size = int(views["image"][at].prod())
        if group and pixels + size > _MOST_PIXELS:
            yield group
            group, pixels = [], 0
        group.append(at)
        pixels += size
    if group:
        yield group


def decoder_of(device: torch.device) -> Callable[..., Any] | None:
    """Return torchcodec's function that decodes JPEGs on a CUDA device; None for other devices.

    Raises:
        ImportError: If torchcodec, or this function, is missing.
    """
    if device.type != "cuda":
        return None
    try:
        decoders = importlib.import_module("torchcodec.decoders")
        found: Callable[..., Any] = decoders.decode_jpeg
    except (ImportError, AttributeError, OSError, RuntimeError) as error:
        raise ImportError(
            "decoder='cuda' needs torchcodec 0.17 or later for a CUDA device: install "
            f"torchrec-io[cuda] ({error})"
        ) from error
    return found


def _decode_together(
    decode: Callable[[list[Tensor]], list[Tensor]], images: list[Tensor]
) -> Sequence[Tensor | None]:
    """Decode JPEGs to uint8 ``[C, H, W]`` each; None for those that cannot be decoded."""
    try:
        return decode(images)
    except RuntimeError:  # because of one or more of them
        if len(images) == 1:
            return [None]
    return [found for image in images for found in _decode_together(decode, [image])]


def _write_view(image: Tensor, view: Any, out: Tensor) -> None:
    """Crop, resize and mirror an image, and write it to its value.

    Args:
        image: uint8 ``[C, H, W]``.
        view: Row of the dtype VIEW.
        out: Value, uint8 ``[C, H, W]`` of the feature's size.
    """
    left, top, right, bottom = view["box"].tolist()
    (height, width), (y, x) = view["size"].tolist(), view["position"].tolist()
    part = image[:, top:bottom, left:right]
    whole = [0, 0, right - left, bottom - top]
    if view["part"].tolist() != whole or list(part.shape[1:]) != [height, width]:
        # Mixed precision is for the model.
        with torch.autocast(image.device.type, enabled=False):
            part = _resized(part.float(), view["part"].tolist(), (height, width))
        part = part.round_().clamp_(0, 255)
    out[:, y : y + height, x : x + width] = part.flip(-1) if view["flip"] else part


def _resized(part: Tensor, box: list[float], size: tuple[int, int]) -> Tensor:
    """Resize a box of an image, float32 ``[C, H, W]``, as Pillow's bilinear filter does."""
    left, top, right, bottom = box
    if box == [0, 0, part.shape[2], part.shape[1]]:
        return torch.nn.functional.interpolate(
            part[None], size, mode="bilinear", align_corners=False, antialias=True
        )[0]
    # Pixels outside of the box count at its edges.
    rows = _weights(size[0], part.shape[1], top, bottom, part.device)
    columns = _weights(size[1], part.shape[2], left, right, part.device)
    return rows @ part @ columns.T


def _weights(count: int, size: int, start: float, end: float, device: torch.device) -> Tensor:
    """Return the weight of each of ``size`` pixels for each of ``count`` resized ones."""
    scale = (end - start) / count
    pixels, centers = (
        torch.arange(each, dtype=torch.float32, device=device).add_(0.5) for each in (size, count)
    )
    centers.mul_(scale).add_(start)
    found = (1 - (pixels - centers[:, None]).abs_() / max(scale, 1.0)).clamp_(min=0)
    return found / found.sum(1, keepdim=True)


def _levels_by_cpu(
    image: npt.NDArray[np.uint8], view: Any, feature: ImageFeature
) -> npt.NDArray[np.uint8]:
    """Decode an image on the CPU to levels ``[H, W, C]`` of the feature's size."""
    from .._images.decode import decode_image  # noqa: PLC0415  # needs Pillow's plugins
    from .._images.geometry import CropKey  # noqa: PLC0415
    from .._images.levels import inner_part  # noqa: PLC0415

    left, top, right, bottom = view["box"].tolist()
    crop = Crop(top, left, bottom - top, right - left, bool(view["flip"]))
    same = replace(feature, augment=lambda *_: crop)
    found = decode_image(memoryview(image.data), same, lambda: CropKey(bytes(16)))
    assert feature.size is not None
    out = np.empty((*feature.size, feature.channels), np.uint8)
    fill = np.array([feature.fill], np.uint8)
    inner_part(out, found.position, found.pixels.shape[:2], fill)[...] = found.pixels
    return out


def _values_of(levels: Tensor, feature: ImageFeature) -> Tensor:
    """Return values of the feature's dtype and layout for levels, uint8 ``[B, C, H, W]``."""
    values = levels
    if feature.dtype != "uint8":
        values = levels.float() * (1 / 255)
        if feature.mean is not None:
            values -= torch.tensor(feature.mean, device=levels.device).view(-1, 1, 1)
        if feature.std is not None:
            values /= torch.tensor(feature.std, device=levels.device).view(-1, 1, 1)
        values = values.to(getattr(torch, feature.column_dtype))
    return values if feature.layout == "CHW" else values.permute(0, 2, 3, 1).contiguous()
