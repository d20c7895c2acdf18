"""Pictures in terminals that can show them: kitty and iTerm2, and those with the same protocols."""

from __future__ import annotations

import base64
import io
import os
import warnings
from collections.abc import Sequence
from typing import Literal, TypeAlias

from PIL import Image

from .._schema.sniff import IMAGES

Protocol: TypeAlias = Literal["kitty", "iterm2"]

# Lines of the terminal that a picture takes, and the size of each image in it.
PICTURE_LINES = 8
_PIXELS = 160
_CHUNK = 4096
# Larger images are not decoded for a thumbnail.
_MAX_PIXELS = 50_000_000


def picture_protocol() -> Protocol | None:
    """Return the protocol with which the terminal shows pictures, or None if it shows none."""
    term, program = os.environ.get("TERM", ""), os.environ.get("TERM_PROGRAM", "")
    # Multiplexers do not pass pictures on.
    if term.startswith(("screen", "tmux", "dumb")) or "TMUX" in os.environ:
        return None
    if term in {"xterm-kitty", "xterm-ghostty"} or "KITTY_WINDOW_ID" in os.environ:
        return "kitty"
    # LC_TERMINAL also reaches other machines through SSH.
    is_iterm2 = program in {"iTerm.app", "WezTerm"} or os.environ.get("LC_TERMINAL") == "iTerm2"
    return "iterm2" if is_iterm2 else None


def picture_sequence(images: Sequence[bytes], protocol: Protocol) -> str:
    """Return the characters that show images side by side, or "" if none can be decoded."""
    strip = _strip(images)
    if strip is None:
        return ""
    png = io.BytesIO()
    strip.save(png, "PNG")
    data = base64.b64encode(png.getvalue()).decode()
    if protocol == "iterm2":
        size = len(png.getvalue())
        return f"\x1b]1337;File=inline=1;size={size};height={PICTURE_LINES}:{data}\x07"
    chunks = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    # q=2: the terminal does not answer, since nothing reads its answer.
    keys = [f"a=T,f=100,q=2,r={PICTURE_LINES},"] + [""] * (len(chunks) - 1)
    more = [1] * (len(chunks) - 1) + [0]
    return "".join(
        f"\x1b_G{key}m={flag};{chunk}\x1b\\"
        for key, flag, chunk in zip(keys, more, chunks, strict=True)
    )


def _strip(images: Sequence[bytes]) -> Image.Image | None:
    tiles = [tile for tile in map(_tile, images) if tile is not None]
    if not tiles:
        return None
    # Squares: the terminal scales the strip to its height, and its width must stay in bounds.
    side = max(max(tile.size) for tile in tiles)
    strip = Image.new("RGB", (side * len(tiles), side))
    for position, tile in enumerate(tiles):
        strip.paste(tile, (side * position, 0))
    return strip


def _tile(data: bytes) -> Image.Image | None:
    """Return a thumbnail, or None for an image that is damaged or very large."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(io.BytesIO(data), formats=IMAGES) as image:
                if image.width * image.height > _MAX_PIXELS:
                    return None
                image.draft("RGB", (_PIXELS, _PIXELS))
                tile = image.convert("RGB")
        except Exception:  # noqa: BLE001  # decoders raise almost anything on damaged data
            return None
    tile.thumbnail((_PIXELS, _PIXELS))
    return tile
