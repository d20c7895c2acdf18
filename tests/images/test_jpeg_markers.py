"""JPEGs whose scans are cut: refused by their markers, or by a decoder that looks inside."""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest
from PIL import Image

from tests.support.images import decoded, encoded, noise, opened, reason_of, smooth

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


@pytest.mark.parametrize("kind", KINDS)
def test_cut_scans_are_errors_natively(kind: str) -> None:
    """The cut file gets an end marker, as a careless program would write it."""
    for seed in range(12):
        pixels = noise(60, 70, seed=seed) if seed % 2 else smooth(80 + seed, 60, seed=seed)
        data = encoded(pixels, "JPEG", quality=40 + 5 * seed, **KINDS[kind])
        assert decoded(data, decoder="native").shape == pixels.shape
        for part in (0.25, 0.5, 0.75, 0.95):
            cut = data[: int(len(data) * part)].removesuffix(b"\xff") + END
            assert "the image cannot be decoded: " in reason_of(cut, decoder="native")


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
    assert decoded(data[: len(data) * 3 // 4] + END, decoder="pillow").shape == (64, 64, 3)


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_scans_of_usual_encoders_are_allowed(mode: str) -> None:
    image = Image.fromarray(smooth(40, 50)).convert(mode)
    data = encoded(image, "JPEG", progressive=True)
    expected = opened(data).convert("RGB")
    for decoder in ("pillow", "native"):
        assert decoded(data, decoder=decoder).tobytes() == expected.tobytes()


def test_bytes_after_the_end_are_ignored() -> None:
    """Phones store videos there."""
    data = encoded(smooth(40, 50), "JPEG")
    for decoder in ("pillow", "native"):
        expected = decoded(data, decoder=decoder).tolist()
        assert decoded(data + b"\xff\xda" * 300, decoder=decoder).tolist() == expected
