"""ImageFeature: how images are decoded, cut and sized."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..errors import SchemaError
from .checks import check_names, is_whole, set_fields
from .crops import Augment, check_size
from .dtypes import DType, dtype_name
from .specs import Feature

_CHOICES: dict[str, tuple[str | None, ...]] = {
    "layout": ("CHW", "HWC"),
    "resize": ("stretch", "cover", "contain", None),
    "mixed": ("list", "pad"),
    "decoder": ("pillow", "simplejpeg", None),
}


@dataclass(frozen=True)
class ImageFeature(Feature):
    """An encoded image: PNG, JPEG, GIF, BMP, WebP, TIFF: what Pillow reads, but for EPS and IPTC.

    With ``size`` it gives a Tensor ``[B, C, H, W]`` (or ``[B, H, W, C]``). Without, or with
    ``channels=0``, a list of B Tensors, each of its own size, or with ``mixed="pad"`` one padded
    Tensor; with ``animated`` a list of B Tensors ``[T, C, H, W]`` (or ``[T, H, W, C]``). What
    becomes of odd images is written in docs/images.md. First of all images are turned
    (``apply_exif_orientation``), then cut (``crop``, then ``augment``), resized, and at last
    mirrored if ``augment`` says so.

    Args:
        channels: 1 (gray), 2 (gray and alpha), 3 (RGB) or 4 (RGBA); images of other modes are
            converted. 0: each image has as many as it is stored with; a palette's colors have 3,
            or 4 if one is transparent.
        dtype: "uint8", 0 to 255; "uint16", 0 to 65535, of which PNGs of 16 bits lose nothing, and
            those of 8 bits are scaled as ``tf.io.decode_image(dtype=tf.uint16)`` does; or a float
            dtype, scaled to 0..1.
        layout: "CHW", as PyTorch's layers want, or "HWC".
        size: ``(height, width)`` that images are resized to, by antialiased bilinear filtering.
        max_pixels: Images that claim more pixels are refused before they are decoded
            (decompression bombs). Pillow's own ``PIL.Image.MAX_IMAGE_PIXELS`` holds as well: it
            warns above that, and refuses more than twice as many.
        resize: How ``size`` is reached: "stretch" changes the ratio of height and width. "cover"
            keeps it: the image fills the size, and what juts out on both sides is cut off.
            "contain" keeps it, too: all of the image is seen, with ``fill`` around it. ``None``:
            images are not resized; one that is not of ``size`` already (once it is turned and cut)
            cannot be decoded. So it must be for "uint16".
        fill: What is put around images, 0 to 255, in every channel; a float dtype scales it.
        crop: ``(top, left, height, width)`` of a box that is cut out of every image. An image that
            it does not fit in cannot be decoded.
        augment: A function that chooses a box of each record's image: it gets height and width (of
            the crop) and a NumPy Generator, seeded by the dataset's seed, the epoch, the record's
            number and the feature's name, and returns a :class:`Crop`. Several threads call it at a
            time. :class:`RandomResizedCrop` and :class:`RandomCrop` are such functions. What it
            raises, or a box outside of the image, is a DecodeError of that record.
        mixed: Without ``size``: "list", or "pad": a Tensor ``[B, C, H, W]`` of the greatest height
            and width of the batch, images at its top left and ``fill`` in the rest;
            ``batch.lengths[name]`` is int64 ``[B, 2]``, each image's height and width.
        decoder: "pillow", or "simplejpeg" for JPEGs (``pip install torchrec-io[jpeg]``), which
            decodes large ones at 1/2, 1/4 or 1/8 of their size where that is enough. ``None``: a
            :class:`BytesArray` ``[B]`` of the bytes as they are stored, which something else is to
            decode; the other arguments are then of no use, and refused.
        apply_exif_orientation: Turn images as their EXIF data says. TensorFlow does not.
        bitcast: The four 8-bit channels of each pixel of a PNG are the bytes of one float32, as in
            TensorFlow Datasets' images of floats. For ``channels=1`` and ``dtype="float32"``;
            arguments that would change pixels are refused.
        animated: All frames of a GIF, each as it is seen, not just the first one; another image is
            one frame. ``max_pixels`` is of all frames together. For ``channels=3`` and without
            ``augment``, ``mixed="pad"``, ``apply_exif_orientation`` and "uint16".
        names: Of the classes that the values of pixels number, from 0 on, in images of labels; not
            for float dtypes.

    Raises:
        SchemaError: an argument is not one of the above.
        ImportError: the decoder's package is missing.
    """

    channels: Literal[0, 1, 2, 3, 4] = 3
    dtype: DType = "uint8"
    layout: Literal["CHW", "HWC"] = "CHW"
    size: Sequence[int] | None = None
    max_pixels: int = 1 << 26
    resize: Literal["stretch", "cover", "contain"] | None = "stretch"
    fill: int = 0
    crop: Sequence[int] | None = None
    augment: Augment | None = None
    mixed: Literal["list", "pad"] = "list"
    decoder: Literal["pillow", "simplejpeg"] | None = "pillow"
    apply_exif_orientation: bool = False
    bitcast: bool = False
    animated: bool = False
    names: Sequence[str] | None = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        set_fields(self, dtype=dtype_name(self.dtype))
        if not is_whole(self.channels) or not 0 <= self.channels <= 4:
            raise SchemaError(f"channels must be 0, 1, 2, 3 or 4, not {self.channels!r}")
        if not is_whole(self.max_pixels) or self.max_pixels < 1:
            raise SchemaError(f"max_pixels must be a whole number from 1, not {self.max_pixels!r}")
        if not is_whole(self.fill) or not 0 <= self.fill <= 255:
            raise SchemaError(f"fill must be a whole number from 0 to 255, not {self.fill!r}")
        for name in ("channels", "max_pixels", "fill"):
            set_fields(self, **{name: int(getattr(self, name))})
        if self.dtype not in ("uint8", "uint16", "float32", "float64", "float16"):
            raise SchemaError(
                f"an image's dtype must be uint8, uint16 or a float, not {self.dtype}"
            )
        set_fields(self, names=check_names(self.names, self.dtype))
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise SchemaError(f"{name} must be {_either(choices)}, not {getattr(self, name)!r}")
        for name in ("apply_exif_orientation", "bitcast", "animated"):
            set_fields(self, **{name: bool(getattr(self, name))})
        self._check_geometry()
        self._check_pixels()
        self._check_decoder()

    def _check_geometry(self) -> None:
        if self.size is not None:
            set_fields(self, size=check_size(self.size))
            if self.mixed == "pad":
                raise SchemaError("with a size all images have the same: no mixed='pad'")
        elif self.resize != "stretch":
            raise SchemaError(f"resize={self.resize!r} needs a size")
        if self.crop is not None:
            set_fields(self, crop=_check_crop(self.crop))
        if self.augment is not None and not callable(self.augment):
            raise SchemaError(f"augment must be a function, not {self.augment!r}")

    def _check_pixels(self) -> None:
        if self.channels == 0 and self.mixed == "pad":
            raise SchemaError("channels=0 leaves images different: no mixed='pad'")
        if self.dtype == "uint16" and self.size is not None and self.resize is not None:
            raise SchemaError("images of uint16 are not resized: a size needs resize=None")
        if self.bitcast:
            if self.channels != 1 or self.dtype != "float32":
                raise SchemaError("bitcast needs channels=1 and dtype='float32'")
            if self.size is not None and self.resize is not None:
                raise SchemaError("bitcast images are not resized: a size needs resize=None")
            self._refuse("bitcast", ("crop", "augment", "mixed", "fill", "apply_exif_orientation"))
        if self.animated:
            if self.channels != 3 or self.dtype == "uint16":
                raise SchemaError("animated needs channels=3 and a dtype other than uint16")
            self._refuse("animated", ("augment", "mixed", "apply_exif_orientation", "bitcast"))

    def _refuse(self, option: str, names: Sequence[str]) -> None:
        """Refuses arguments that do not go with an option."""
        for each in dataclasses.fields(self):
            if each.name in names and getattr(self, each.name) != each.default:
                raise SchemaError(f"{option} images take no {each.name}")

    def _check_decoder(self) -> None:
        if self.decoder == "simplejpeg" and importlib.util.find_spec("simplejpeg") is None:
            raise ImportError(
                "decoder='simplejpeg' needs the package simplejpeg: pip install torchrec-io[jpeg]"
            )
        if self.decoder is not None:
            return
        for each in dataclasses.fields(self):
            if each.name != "decoder" and getattr(self, each.name) != each.default:
                raise SchemaError(f"decoder=None leaves images undecoded: no {each.name}")

    @property
    def is_slow(self) -> bool:
        return True

    @property
    def known_shape(self) -> tuple[int, ...] | None:
        """The shape of every image, if it is known."""
        if self.size is None or self.channels == 0 or self.animated:
            return None
        height, width = self.size
        return self.shape_of(height, width)

    def shape_of(
        self, height: int, width: int, channels: int | None = None
    ) -> tuple[int, int, int]:
        """Shape of a decoded image, or of a frame; ``channels`` if they are as stored."""
        depth = self.channels if channels is None else channels
        return (depth, height, width) if self.layout == "CHW" else (height, width, depth)


def _check_crop(crop: Any) -> tuple[int, ...]:
    box = tuple(crop) if isinstance(crop, (tuple, list)) else ()
    if len(box) != 4 or not all(map(is_whole, box)) or min(box[:2]) < 0 or min(box[2:]) < 1:
        raise SchemaError(f"crop must be (top, left, height, width) in the image, not {crop!r}")
    return tuple(map(int, box))


def _either(choices: Sequence[str | None]) -> str:
    *others, last = map(repr, choices)
    return f"{', '.join(others)} or {last}"
