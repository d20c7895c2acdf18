"""Checks of JPEGs by their markers, before a decoder sees them."""

from __future__ import annotations

import numpy as np

from .. import _core

SIGNATURE = b"\xff\xd8\xff"
MAX_SCANS: int = _core.MAX_JPEG_SCANS

_Fault = _core.JpegFault
_REASONS = {
    _Fault.truncated: "it is truncated",
    _Fault.invalid_marker: "one of its markers is unknown or invalid",
    _Fault.several_frames: "it has more than one frame header",
    _Fault.unsupported_coding: (
        "it is coded in an arithmetic or hierarchical way, in which damage cannot be detected; "
        "convert it to a baseline or progressive JPEG"
    ),
    _Fault.unsupported_precision: "its values must have 8 bits, got {found.precision}",
    _Fault.too_many_scans: f"it has more than {MAX_SCANS} scans, which would take too long",
    _Fault.too_many_segments: (
        f"it has more than {_core.MAX_JPEG_SEGMENTS:,} segments, or more than "
        f"{_core.MAX_JPEG_SEGMENT_BYTES:,} bytes in them"
    ),
    _Fault.stray_bytes: (
        f"it has more than {_core.MAX_STRAY_JPEG_BYTES:,} bytes between its segments"
    ),
    _Fault.missing_scans: "it is incomplete: scans with the rest of its pixels are missing",
    _Fault.missing_restarts: "it is incomplete: a scan ends before its last restart marker",
}


def check_jpeg(data: memoryview | bytes) -> None:
    """Refuse a JPEG whose markers show that it is incomplete, unsupported, or slow to decode.

    Data inside of a scan is not decoded: a baseline JPEG that was cut there and given an end
    marker passes.

    Args:
        data: Bytes of the file.

    Raises:
        ValueError: If the JPEG is refused.
    """
    found = _core.read_jpeg_markers(np.frombuffer(data, np.uint8), MAX_SCANS)
    if found.fault is not None:
        raise ValueError(_REASONS[found.fault].format(found=found))
