"""Records whose names, texts and images try to change a page."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

from PIL import Image, PngImagePlugin

from tests.support.examples import example_of
from tests.support.images import encoded, noise

ATTACKS = [
    '</script><img src=x onerror="window.hacked = 1">',
    "<script>window.hacked = 1</script>",
    "\"><svg onload='window.hacked = 1'>",
    "' onmouseover='window.hacked = 1' x='",
    "</style><style>body { display: none }</style>",
    "</pre></details><h1>Buy now</h1><!--",
    "<iframe src='https://example.com'></iframe>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt; &amp;#60;",
    "javascript:window.hacked = 1",
    "a\u202egnp.exe\u2066 \u200b\ufeff\x00\x1b[31m\r\n\x7f",
    "long " * 300_000,
]


def records() -> list[bytes]:
    """Return Examples with all attacks as names, texts, labels and in images."""
    found = []
    for number in range(60):
        attack = ATTACKS[number % len(ATTACKS)]
        values: dict[str, Any] = {f"{i} {name[:200]}": [i] for i, name in enumerate(ATTACKS)}
        values |= {"label": [attack.encode()[:60]], "text": [attack.encode()]}
        values |= {"bytes": [b"\xff\xfe" + attack.encode()[:100]]}
        values |= {"image": [IMAGES[number % len(IMAGES)]]}
        found.append(example_of(**values))
    return found


def _with_text() -> bytes:
    """Return a PNG with an attack in its text chunks, which a copy must not have."""
    info = PngImagePlugin.PngInfo()
    info.add_text("comment", ATTACKS[0])
    return encoded(noise(12, 12), pnginfo=info)


def _bomb(side: int) -> bytes:
    """Return a small PNG that claims to be a large square."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(1_000_000))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


def _animation() -> bytes:
    file = io.BytesIO()
    frames = [Image.fromarray(noise(10, 10, seed=seed)).convert("P") for seed in range(3)]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    return file.getvalue()


IMAGES = [
    encoded(noise(20, 30), "JPEG"),
    _with_text(),
    _bomb(10_000),
    _bomb(60_000),
    encoded(noise(20, 30), "JPEG")[:-300],
    b"\xff\xd8\xff\xe0" + ATTACKS[0].encode(),
    b"\x89PNG\r\n\x1a\n" + b"\xff" * 50,
    b"BM" + b"\xff" * 60,
    b"RIFF\xff\xff\xff\xffWEBPVP8 " + bytes(40),
    _animation(),
    encoded(Image.fromarray(noise(9, 9, 4)), "PNG"),
    encoded(Image.new("I;16", (9, 5), 40_000), "PNG"),
    encoded(Image.new("P", (9, 5)), "PNG", transparency=0),
    encoded(Image.new("CMYK", (9, 5)), "JPEG"),
    encoded(Image.new("F", (9, 5), float("nan")), "TIFF"),
    encoded(Image.new("1", (9, 5)), "PNG"),
]
