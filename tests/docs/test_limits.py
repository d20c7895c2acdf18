"""The numbers in the table of limits are those of the code."""

from __future__ import annotations

from PIL import Image, PngImagePlugin

import torchrec_io as tio
from tests.conftest import ROOT
from torchrec_io import _core
from torchrec_io._datasets import replacement
from torchrec_io._images.jpeg_markers import MAX_SCANS
from torchrec_io._records.record_size import MAX_RECORD_BYTES
from torchrec_io._schema.nesting import MOST_LEVELS

FEATURE = tio.ImageFeature()
BYTES = tio.RawFeature("uint8", [1])
PILLOW = Image.MAX_IMAGE_PIXELS


def test_limits_are_true() -> None:
    lines = (ROOT / "docs" / "limits.md").read_text("utf-8").splitlines()
    for subject, limit in (
        ("size of a record, as", f"| {MAX_RECORD_BYTES >> 30} GiB | `max_record_bytes`"),
        ("pixels of an image, of all its frames", f"| {FEATURE.max_pixels:,};"),
        ("scans of a JPEG", f"| {MAX_SCANS} |"),
        ("segments of a JPEG", f"| {_core.MAX_JPEG_SEGMENTS:,} segments"),
        ("segments of a JPEG", f", {_core.MAX_JPEG_SEGMENT_BYTES >> 20} MiB"),
        ("segments of a JPEG", f", {_core.MAX_STRAY_JPEG_BYTES >> 10} KiB"),
        ("text of a PNG", f"| {PngImagePlugin.MAX_TEXT_CHUNK >> 20} MiB in a chunk"),
        ("text of a PNG", f", {PngImagePlugin.MAX_TEXT_MEMORY >> 20} MiB in all"),
        ("pixels of an image that Pillow", f"| {2 * PILLOW if PILLOW else PILLOW:,} |"),
        ("size of a decompressed value", f"| {BYTES.max_bytes >> 20} MiB |"),
        ("valid records searched", f"| {replacement.REACH:,} in each"),
        ("dicts of a schema", f"| {MOST_LEVELS} |"),
    ):
        [row] = [line for line in lines if line.startswith(f"| {subject}")]
        assert limit in row
