"""simplejpeg, which decodes whole images with libjpeg-turbo; Pillow resizes them."""

from __future__ import annotations

from functools import partial
from typing import Any

import simplejpeg
from PIL import Image

from benchmarks.image_peers.pillow import loader_of, resized


def _decode(stored: bytes, recipe: str, box: Any) -> Any:
    return resized(Image.fromarray(simplejpeg.decode_jpeg(stored)), recipe, box)


PEERS = {"simplejpeg and Pillow in a DataLoader": partial(loader_of, decode=_decode)}
