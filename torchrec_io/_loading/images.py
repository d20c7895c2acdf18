"""Image features of a dataset, for descriptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .._images.native import decodes_jpegs, decodes_pngs
from .._schema.image_spec import ImageFeature

_JPEGS = "JPEGs are decoded natively by libjpeg-turbo, which detects cut scans"
_PNGS = "most PNGs are decoded natively by libdeflate"
_PILLOW = "which cannot detect that the scan of a baseline JPEG was cut; {remedy} can"


def image_features(dataset: Any) -> list[ImageFeature]:
    """Return the image features of a dataset's schema, also the images of sequences."""
    schema = getattr(dataset, "schema", None)
    specs = schema.values() if isinstance(schema, Mapping) else ()
    found = [getattr(spec, "element", spec) for spec in specs]
    return [spec for spec in found if isinstance(spec, ImageFeature)]


def describe_images(dataset: Any) -> Iterator[str]:
    """Yield a line for each decoder of images, with the damage that it does not detect."""
    lines = [_describe(feature) for feature in image_features(dataset) if feature.decoder]
    yield from dict.fromkeys(lines)


def _describe(feature: ImageFeature) -> str:
    if feature.decoder == "cuda":
        return (
            "images: JPEGs are decoded by nvJPEG when a batch is moved to a CUDA device, natively "
            "for the CPU; other images are decoded on the CPU as they are parsed"
        )
    pngs = _PNGS if decodes_pngs(feature) else ""
    if decodes_jpegs(feature):
        return "images: " + ", ".join(filter(None, [_JPEGS, pngs, "other formats by Pillow"]))
    rest = f"{pngs}, other formats by Pillow" if pngs else "decoded by Pillow"
    if feature.palette == "index":
        return f"images: {rest}"  # JPEGs are refused
    remedy = "decoder='auto'" if feature.decoder == "pillow" else "a build with libjpeg-turbo"
    return f"images: {rest}, {_PILLOW.format(remedy=remedy)}"
