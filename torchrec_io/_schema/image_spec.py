"""The spec of encoded images: how they are decoded, cropped and resized."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ..checks import check_choice, is_integer
from ..errors import SchemaError
from .checks import check_integer, check_names, check_own_key, set_fields
from .color_jitter import ColorJitter
from .crops import Augment, check_size, group_of, is_number
from .dtypes import ImageDType, dtype_name
from .feature import Feature, Place

_CHOICES: dict[str, tuple[str | None, ...]] = {
    "layout": ("CHW", "HWC"),
    "resize": ("stretch", "cover", "contain", None),
    "mixed": ("list", "pad"),
    "filter": ("bilinear", "nearest"),
    "palette": ("color", "index"),
    "decoder": ("auto", "native", "pillow", "cuda", None),
}
_NOT_BY_CUDA = (
    *("fast", "tf_compatible", "apply_exif_orientation", "bitcast", "animated", "palette"),
    *("filter", "mixed", "names", "jitter"),
)
_DTYPES = ("uint8", "uint16", "float32", "float64", "float16", "bfloat16")


@dataclass(frozen=True)
class ImageFeature(Feature):
    """An encoded image: PNG, JPEG, GIF, BMP, WebP, TIFF or any other format of Pillow.

    EPS, IPTC, BLP and FITS files are refused. With ``size`` the column is a Tensor
    ``[B, C, H, W]`` (or ``[B, H, W, C]``). Without, or with ``channels=0``, it is a list of B
    Tensors, each of its own size, or with ``mixed="pad"`` one padded Tensor. With ``animated`` it
    is a list of B Tensors ``[T, C, H, W]`` (or ``[T, H, W, C]``). docs/images.md has the rules for
    unusual images.

    An image is first rotated (``apply_exif_orientation``), then cropped (``crop``, then
    ``augment``), then resized, then mirrored if ``augment`` asks for it.

    Args:
        channels: Number of channels: 1 (gray), 2 (gray and alpha), 3 (RGB) or 4 (RGBA). Images of
            other modes are converted. 0: each image keeps the channels that it is stored with; the
            colors of a palette have 3, or 4 if one is transparent.
        dtype: Dtype of the column: "uint8", 0 to 255; "uint16", 0 to 65535, which keeps PNGs of
            16 bits exact and scales those of 8 bits as ``tf.io.decode_image(dtype=tf.uint16)``
            does; or a float dtype, scaled to 0..1.
        layout: Order of the axes: "CHW", which PyTorch's layers take, or "HWC".
        size: Size ``(height, width)`` that images are resized to, with ``filter``.
        max_pixels: Maximum number of pixels. Images with more pixels in their header are refused
            before they are decoded (decompression bombs). Pixels with more than 8 bits per channel
            count twice. docs/limits.md has all limits. To images that Pillow decodes, its own
            limit, ``PIL.Image.MAX_IMAGE_PIXELS``, applies, too: it warns above that and refuses
            more than twice as many.
        resize: Method to reach ``size``. "stretch" changes the ratio of height and width. "cover"
            keeps it: the image fills the size, and the parts that extend past it on both sides are
            cut off. "contain" keeps it, too: the whole image is visible, with ``fill`` around it.
            ``None``: images are not resized; after rotation and cropping they must have ``size``.
            "uint16" needs ``None`` or ``filter="nearest"``.
        fill: Value of the pixels around images, 0 to 255, in every channel; a float dtype scales
            it.
        crop: Box ``(top, left, height, width)`` that is cut out of every image. It must fit in the
            image.
        augment: Function that chooses a box for each record's image. It gets the height and the
            width (of the crop) and a NumPy Generator, seeded by the dataset's seed, the epoch, the
            record's number and the name of the feature, or of its group, and returns a
            :class:`Crop`. It must be thread-safe. :class:`RandomResizedCrop`, :class:`RandomCrop`
            and :class:`RandomFlip` are such functions. An exception that it raises, or a box
            outside of the image, becomes a DecodeError of the record. If several features have an
            ``augment``, each needs a ``group``, an attribute of the function: features of one group
            must have equal functions and get the same box and flip. The box is chosen for the image
            of the group's first feature in the schema, and scaled to images of other sizes.
        mixed: Column of images without ``size``: "list", or "pad" for a Tensor ``[B, C, H, W]`` of
            the largest height and width of the batch, with images at the top left and ``fill`` in
            the rest; ``batch.lengths[name]`` is int64 ``[B, 2]``, each image's height and width.
        decoder: "auto" decodes natively JPEGs, if this build has libjpeg-turbo, and most PNGs, if
            it has libdeflate; docs/images.md says which PNGs. It decodes other images with Pillow.
            "native" is the same, but refused without both libraries; "pillow" decodes all images
            with Pillow, which accepts some damaged JPEGs, such as one whose scan was cut. "cuda"
            decodes JPEGs with nvJPEG when a batch is moved to a CUDA device, which needs ``size``
            and torchcodec; docs/images.md says how. ``None``:
            the column is a :class:`BytesArray` ``[B]`` of the stored bytes, to be decoded
            elsewhere; the other arguments are then refused.
        apply_exif_orientation: Whether to rotate images as their EXIF data says. TensorFlow does
            not.
        bitcast: Whether the four 8-bit channels of each pixel of a PNG are the bytes of one
            float32, as in float images of TensorFlow Datasets. This needs ``channels=1`` and
            ``dtype="float32"``; arguments that would change pixels are refused.
        animated: Whether to decode all frames of a GIF, each as it is shown, not only the first
            one; another image is one frame. ``max_pixels`` applies to all frames together. This
            needs ``channels=3`` and excludes ``augment``, ``mixed="pad"``,
            ``apply_exif_orientation`` and "uint16".
        mean: Mean of each channel, from 0 to 1, which is subtracted from the values; for float
            dtypes.
        std: Standard deviation of each channel, by which values are then divided; for float dtypes.
        short_side: With ``resize="cover"``: number of pixels of the shorter side of the resized
            image, whose center of ``size`` is used, as torchvision's ``Resize(short_side)`` and
            ``CenterCrop(size)`` do. By default the image is as small as possible.
        fast: Whether JPEGs are decoded natively with the fast DCT, and at 1/2, 1/4 or 1/8 of their
            size where that leaves enough pixels. docs/images.md has the differences.
        tf_compatible: Whether JPEGs are decoded natively to the pixels of ``tf.io.decode_jpeg``
            with its defaults, which uses the fast DCT.
        filter: Filter that resizes: "bilinear", Pillow's antialiased one; or "nearest", which
            takes the nearest pixel and so keeps the class numbers of masks. It is Pillow's, and
            ``torch.nn.functional.interpolate(mode="nearest-exact")``.
        palette: Values of images with a palette: "color", the colors; or "index", the stored
            indices, such as the class numbers of a mask. Gray images of 8 bits keep their levels;
            others are then refused, and so are JPEGs, which do not keep class numbers. "index"
            needs ``channels=1``, the dtype "uint8", and ``filter="nearest"`` to resize.
        jitter: Random change of the colors, a :class:`ColorJitter`, after resizing. It depends on
            the same numbers as ``augment``, and on the name of the feature, whatever its group. All
            elements of a SequenceFeature in a record get the same change. ``fill`` is not changed.
            This needs ``channels=3`` and excludes ``animated``, ``names`` and "uint16".
        names: Names of classes, for images whose pixels are class numbers from 0; not for float
            dtypes. To resize them needs ``filter="nearest"``.
        key: Name of the stored feature; by default this feature's own name. Several features can
            read one image.

    Raises:
        SchemaError: If an argument is not one of the above.
        ImportError: If native decoding is needed, and this build lacks libjpeg-turbo or libdeflate.
    """

    column = "torchrec_io._parsing.columns.image:build_image"
    element_decoder = "torchrec_io._parsing.columns.image:ImageDecoder"
    places: ClassVar[frozenset[Place]] = frozenset({"example", "context", "element"})

    channels: Literal[0, 1, 2, 3, 4] = 3
    dtype: ImageDType = "uint8"
    layout: Literal["CHW", "HWC"] = "CHW"
    size: Sequence[int] | None = None
    max_pixels: int = 1 << 26
    resize: Literal["stretch", "cover", "contain"] | None = "stretch"
    fill: int = 0
    crop: Sequence[int] | None = None
    augment: Augment | None = None
    mixed: Literal["list", "pad"] = "list"
    decoder: Literal["auto", "native", "pillow", "cuda"] | None = "auto"
    apply_exif_orientation: bool = False
    bitcast: bool = False
    animated: bool = False
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    short_side: int | None = None
    fast: bool = False
    tf_compatible: bool = False
    filter: Literal["bilinear", "nearest"] = "bilinear"
    palette: Literal["color", "index"] = "color"
    jitter: ColorJitter | None = None
    names: Sequence[str] | None = field(default=None, kw_only=True)
    key: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        set_fields(
            self,
            channels=check_integer("channels", self.channels, 0, 4),
            max_pixels=check_integer("max_pixels", self.max_pixels, 1),
            fill=check_integer("fill", self.fill, 0, 255),
            dtype=dtype_name(self.dtype),
        )
        check_choice("dtype of an ImageFeature", self.dtype, _DTYPES, SchemaError)
        set_fields(self, names=check_names(self.names, self.column_dtype))
        set_fields(self, key=check_own_key(self.key))
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices, SchemaError)
        for name in ("apply_exif_orientation", "bitcast", "animated", "fast", "tf_compatible"):
            set_fields(self, **{name: bool(getattr(self, name))})
        self._check_geometry()
        self._check_pixels()
        self._check_jitter()
        self._check_decoder()

    def _check_geometry(self) -> None:
        if self.size is not None:
            set_fields(self, size=check_size(self.size))
            if self.mixed == "pad":
                raise SchemaError("mixed='pad' excludes size, which gives all images one size")
        elif self.resize != "stretch":
            raise SchemaError(f"resize={self.resize!r} needs size")
        if self.short_side is not None:
            set_fields(self, short_side=check_integer("short_side", self.short_side, 1))
            if self.size is None or self.resize != "cover" or max(self.size) > self.short_side:
                raise SchemaError(
                    "short_side needs resize='cover' and a size of at most short_side, got "
                    f"short_side={self.short_side}, resize={self.resize!r}, size={self.size}"
                )
        if self.crop is not None:
            set_fields(self, crop=_check_crop(self.crop))
        if self.augment is not None and not callable(self.augment):
            raise SchemaError(f"augment must be a function, got {self.augment!r}")

    def _check_pixels(self) -> None:
        if self.channels == 0 and self.mixed == "pad":
            raise SchemaError("mixed='pad' excludes channels=0: images differ in their channels")
        self._check_filter()
        for name in ("mean", "std"):
            set_fields(self, **{name: self._check_statistics(name)})
        if self.bitcast:
            if self.channels != 1 or self.dtype != "float32":
                raise SchemaError("bitcast needs channels=1 and dtype='float32'")
            if self.size is not None and self.resize is not None:
                raise SchemaError("bitcast with size needs resize=None")
            self._refuse(
                "bitcast",
                ("crop", "augment", "mixed", "fill", "apply_exif_orientation", "mean", "std"),
            )
        if self.animated:
            if self.channels != 3 or self.dtype == "uint16":
                raise SchemaError("animated needs channels=3 and a dtype other than uint16")
            names = ("augment", "mixed", "apply_exif_orientation", "bitcast", "jitter")
            self._refuse("animated", names)

    def _check_jitter(self) -> None:
        if self.jitter is None:
            return
        if not isinstance(self.jitter, ColorJitter):
            raise SchemaError(f"jitter must be a ColorJitter, got {self.jitter!r}")
        if self.channels != 3 or self.dtype == "uint16":
            raise SchemaError("jitter needs channels=3 and a dtype other than uint16")
        self._refuse("jitter", ("names",))

    def _check_filter(self) -> None:
        is_resized = self.size is not None and self.resize is not None
        if self.palette == "index" and (self.channels != 1 or self.dtype != "uint8"):
            raise SchemaError("palette='index' needs channels=1 and dtype='uint8'")
        if self.filter == "nearest":
            if not is_resized:
                raise SchemaError("filter='nearest' needs size, and a resize other than None")
            self._refuse("filter='nearest'", ("fast",))
        elif is_resized and (self.palette == "index" or self.names is not None):
            raise SchemaError(
                "class numbers (names or palette='index') cannot be averaged: resize them with "
                "filter='nearest'"
            )
        elif is_resized and self.dtype == "uint16":
            raise SchemaError(
                "dtype='uint16' with size needs resize=None or filter='nearest': no other filter "
                "is for 16 bits"
            )

    def _check_statistics(self, name: str) -> tuple[float, ...] | None:
        values = getattr(self, name)
        if values is None:
            return None
        if self.column_dtype.startswith("uint") or self.channels == 0 or self.mixed == "pad":
            raise SchemaError(f"{name} needs a float dtype and channels, and excludes mixed='pad'")
        numbers = tuple(values) if isinstance(values, (tuple, list)) else ()
        valid = all(is_number(number) and (name == "mean" or number > 0) for number in numbers)
        if len(numbers) != self.channels or not valid:
            kind = "number" if name == "mean" else "positive number"
            raise SchemaError(f"{name} must have a {kind} for each channel, got {values!r}")
        return tuple(map(float, numbers))

    def _check_decoder(self) -> None:
        needs_jpeg = self.decoder == "native" or self.fast or self.tf_compatible
        if needs_jpeg and importlib.util.find_spec("torchrec_io._jpeg") is None:
            raise ImportError(
                "decoder='native', fast and tf_compatible need a build with libjpeg-turbo: install "
                "its headers (Debian: libjpeg-dev) and build torchrec_io again"
            )
        if self.decoder == "native" and importlib.util.find_spec("torchrec_io._png") is None:
            raise ImportError(
                "decoder='native' needs a build with libdeflate: install its headers (Debian: "
                "libdeflate-dev) and build torchrec_io again; decoder='auto' works without"
            )
        if self.decoder == "pillow":
            self._refuse("decoder='pillow'", ("fast", "tf_compatible"))
        if self.decoder == "cuda":
            self._refuse("decoder='cuda'", _NOT_BY_CUDA)
            if self.size is None or self.channels not in (1, 3) or self.dtype == "uint16":
                raise SchemaError(
                    "decoder='cuda' needs size, channels=1 or 3 and a dtype other than uint16, got "
                    f"size={self.size}, channels={self.channels}, dtype={self.dtype!r}"
                )
        if self.fast and self.tf_compatible:
            raise SchemaError("fast excludes tf_compatible, which decodes at full size")
        if self.decoder is None:
            names = {each.name for each in dataclasses.fields(self)} - {"decoder", "key"}
            self._refuse("decoder=None", names)

    def _refuse(self, option: str, names: Collection[str]) -> None:
        """Check that some arguments, which an option excludes, have their default values."""
        for each in dataclasses.fields(self):
            if each.name in names and getattr(self, each.name) != each.default:
                raise SchemaError(f"{option} excludes {each.name}")

    @property
    def known_shape(self) -> tuple[int, ...] | None:
        if self.size is None or self.channels == 0 or self.animated:
            return None
        height, width = self.size
        return self.shape_of(height, width)

    @property
    def known_rank(self) -> int:
        if self.decoder is None:
            return 0
        return 4 if self.animated else 3

    @property
    def is_slow(self) -> bool:
        return self.decoder is not None

    def shape_of(
        self, height: int, width: int, channels: int | None = None
    ) -> tuple[int, int, int]:
        """Return the shape of a decoded image or frame.

        Args:
            height: Height of the image.
            width: Width of the image.
            channels: Number of its channels; by default that of the spec.
        """
        depth = self.channels if channels is None else channels
        return (depth, height, width) if self.layout == "CHW" else (height, width, depth)

    def check_place(self, place: Place) -> None:
        super().check_place(place)
        if place == "element":
            self._refuse("an element of a SequenceFeature", ("mixed",))
            if self.decoder in (None, "cuda"):
                raise SchemaError(
                    f"an element of a SequenceFeature excludes decoder={self.decoder!r}"
                )

    def check_beside(self, name: str, features: Mapping[str, Feature]) -> None:
        """Check that random crops of several features say whether they are the same."""
        if self.augment is None:
            return
        group = group_of(self.augment)
        images = {each: image_of(spec) for each, spec in features.items()}
        crops = {each: image.augment for each, image in images.items() if image and image.augment}
        if group is None and len(crops) > 1:
            others = ", ".join(repr(each) for each in crops if each != name)
            raise SchemaError(
                f"its random crop needs a group, because other features have one, too ({others}): "
                "features with RandomResizedCrop(group='view') get the same box and flip, features "
                "of different groups get different ones"
            )
        first = next(augment for augment in crops.values() if group_of(augment) == group)
        if first != self.augment:
            raise SchemaError(
                f"all features of the group {group!r} must have equal augment functions, got "
                f"{first!r} and {self.augment!r}"
            )


def image_of(feature: Feature) -> ImageFeature | None:
    """Return the spec of an image, or of each image of a sequence; None for other features.

    That of an array that is cropped like an image is that of its crop.
    """
    element = getattr(feature, "element", feature)
    return element if isinstance(element, ImageFeature) else getattr(element, "cropped", None)


def _check_crop(crop: Any) -> tuple[int, ...]:
    box = tuple(crop) if isinstance(crop, (tuple, list)) else ()
    if len(box) != 4 or not all(map(is_integer, box)) or min(box[:2]) < 0 or min(box[2:]) < 1:
        raise SchemaError(f"crop must be (top, left, height, width) in the image, got {crop!r}")
    return tuple(map(int, box))
