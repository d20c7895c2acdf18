"""Image features of a dataset, for descriptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..schema.image_spec import ImageFeature

_DECODERS = {
    "pillow": (
        "decoded by Pillow, which cannot detect that the scan of a baseline JPEG was cut; "
        "decoder='simplejpeg' can"
    ),
    "simplejpeg": (
        "JPEGs are decoded by simplejpeg, which detects cut scans, other formats and CMYK by Pillow"
    ),
}


def image_features(dataset: Any) -> list[ImageFeature]:
    """Return the image features of a dataset's schema, also those of sequences."""
    schema = getattr(dataset, "schema", None)
    specs = schema.values() if isinstance(schema, Mapping) else ()
    found = [getattr(spec, "element", spec) for spec in specs]
    return [spec for spec in found if isinstance(spec, ImageFeature)]


def describe_images(dataset: Any) -> Iterator[str]:
    """Yield a line for each decoder of images, with the damage that it does not detect."""
    for decoder in dict.fromkeys(feature.decoder for feature in image_features(dataset)):
        if decoder is not None:
            yield f"images: {_DECODERS[decoder]}"
