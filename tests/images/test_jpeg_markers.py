"""JPEGs that are refused by their markers, or by a decoder that reports damage inside of scans."""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest
from PIL import Image

from tests.support.images import decoded, encoded, noise, opened, smooth
from torchrec_io.errors import DecodeError

both = pytest.mark.parametrize("decoder", ["pillow", "simplejpeg"])
END = b"\xff\xd9"
KINDS: dict[str, dict[str, Any]] = {
    "420": {"subsampling": "4:2:0"},
    "444": {"subsampling": "4:4:4"},
    "optimized": {"optimize": True},
    "progressive": {"progressive": True},
    "restarts": {"restart_marker_rows": 1},
    "progressive with restarts": {"progressive": True, "restart_marker_blocks": 3},
}
# Cut scans that even Pillow's decoder does not get to see.
SEEN_IN_MARKERS = ("progressive", "restarts", "progressive with restarts")


def segment(code: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, code, len(body) + 2) + body


def position_of(data: bytes, code: int) -> int:
    """Return where the first segment with a code starts."""
    at = 2
    while data[at + 1] != code:
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return at


def reason_of(data: bytes, **options: Any) -> str:
    with pytest.raises(DecodeError) as caught:
        decoded(data, **options)
    assert caught.value.feature == "image"
    return caught.value.reason


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", [0.25, 0.5, 0.75, 0.95])
def test_cut_scans_are_errors_with_simplejpeg(kind: str, part: float) -> None:
    """The cut file gets an end marker, as a careless program would write it."""
    for seed in range(12):
        pixels = noise(60, 70, seed=seed) if seed % 2 else smooth(80 + seed, 60, seed=seed)
        data = encoded(pixels, "JPEG", quality=40 + 5 * seed, **KINDS[kind])
        assert decoded(data, decoder="simplejpeg").shape == pixels.shape
        cut = data[: int(len(data) * part)].removesuffix(b"\xff") + END
        assert "the image cannot be decoded: " in reason_of(cut, decoder="simplejpeg")


@pytest.mark.parametrize("kind", SEEN_IN_MARKERS)
def test_cut_scans_that_markers_show_are_errors_with_pillow(kind: str) -> None:
    for seed in range(12):
        data = encoded(noise(60, 70, seed=seed), "JPEG", quality=40 + 5 * seed, **KINDS[kind])
        for part in (0.25, 0.5):
            cut = data[: int(len(data) * part)].removesuffix(b"\xff") + END
            assert re.search("is incomplete|invalid|truncated", reason_of(cut))


def test_pillow_cannot_tell_that_a_baseline_scan_was_cut() -> None:
    """The documentation and ``describe`` say so."""
    data = encoded(smooth(64, 64), "JPEG")
    assert decoded(data[: len(data) * 3 // 4] + END).shape == (64, 64, 3)


@both
def test_scans_are_limited(decoder: Any) -> None:
    """Each scan of a progressive JPEG takes as long as a whole image."""
    data = encoded(smooth(64, 64), "JPEG", progressive=True)
    assert decoded(data, decoder=decoder).shape == (64, 64, 3)
    last = data.rindex(b"\xff\xda")
    bomb = data[:last] + data[last:-2] * 100 + END
    assert reason_of(bomb, decoder=decoder).endswith(
        "it has more than 64 scans, which would take too long"
    )


@both
@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_scans_of_usual_encoders_are_allowed(mode: str, decoder: Any) -> None:
    image = Image.fromarray(smooth(40, 50)).convert(mode)
    data = encoded(image, "JPEG", progressive=True)
    expected = opened(data).convert("RGB")
    assert decoded(data, decoder=decoder).tobytes() == expected.tobytes()


@both
def test_unsupported_jpegs_are_named(decoder: Any) -> None:
    data = encoded(smooth(40, 50), "JPEG")
    at = position_of(data, 0xC0)
    arithmetic = data[: at + 1] + b"\xc9" + data[at + 2 :]
    assert "coded in an arithmetic or hierarchical way" in reason_of(arithmetic, decoder=decoder)
    precise = data[: at + 4] + b"\x0c" + data[at + 5 :]
    assert "its values must have 8 bits, got 12" in reason_of(precise, decoder=decoder)
    frame = data[at : position_of(data, 0xC4)]
    twice = data[:at] + frame + data[at:]
    assert "more than one frame header" in reason_of(twice, decoder=decoder)


@both
def test_damaged_headers_are_errors(decoder: Any) -> None:
    data = encoded(smooth(40, 50), "JPEG")
    at = position_of(data, 0xDA)
    assert "unknown or invalid" in reason_of(data[:2] + b"\xff\xbf" + data[2:], decoder=decoder)
    assert "it is truncated" in reason_of(data[:-2], decoder=decoder)
    many = data[:2] + segment(0xFE, b"") * 5000 + data[2:]
    assert "more than 4,096 segments" in reason_of(many, decoder=decoder)
    stray = data[:at] + b"x" * 70_000 + data[at:]
    assert "more than 65,536 bytes between" in reason_of(stray, decoder=decoder)
    assert "is incomplete" in reason_of(data[:at] + END, decoder=decoder)


def test_bytes_after_the_end_are_ignored() -> None:
    """Phones store videos there."""
    data = encoded(smooth(40, 50), "JPEG")
    for decoder in ("pillow", "simplejpeg"):
        expected = decoded(data, decoder=decoder).tolist()
        assert decoded(data + b"\xff\xda" * 300, decoder=decoder).tolist() == expected
