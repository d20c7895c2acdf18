"""Compressions of data files, and their detection by content."""

from __future__ import annotations

import os
import zlib
from typing import Literal, TypeAlias, get_args

import numpy as np

from .. import _core
from ..checks import check_choice

Compression: TypeAlias = Literal["gzip", "zlib", "zstd"]
CompressionChoice: TypeAlias = Literal["auto", "gzip", "zlib", "zstd"] | None
COMPRESSIONS: tuple[Compression, ...] = get_args(Compression)

# Most bytes that one byte of a file can stand for. A block of Zstandard has at most 128 KiB, and at
# least 4 bytes.
MOST_INFLATED: dict[Compression | None, int] = {
    None: 1,
    "gzip": 1032,
    "zlib": 1032,
    "zstd": 1 << 15,
}

# Size of a part of a decompressed stream that has a checksum in the index.
CHECKED_BYTES = 1 << 18

# What the tools add to the name of a file.
SUFFIXES: dict[Compression, str] = {"gzip": ".gz", "zlib": ".zz", "zstd": ".zst"}

# zlib's name for the deflate wrapper and its window size.
WINDOW_BITS: dict[Compression, int] = {"gzip": 31, "zlib": 15}

# RFC 8878, sections 3.1.1 and 3.1.2: a frame, or one to skip, whose first byte has 16 values.
_ZSTD_MAGIC = (
    b"\x28\xb5\x2f\xfd",
    *(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60)),
)

_MAGIC: dict[Compression, bytes] = {"gzip": b"\x1f\x8b", "zlib": b"\x78\x9c"}
_RECORD_HEADER_BYTES = _core.FRAME_HEADER_BYTES
# Text is recognized by this many bytes. A deflate stream of this length is never all text.
_TEXT_BYTES = 64
_TEXT = bytes([*range(0x20, 0x7F), *b"\t\n\r"])


def without_suffix(name: str) -> str:
    """Return the name that a file had before a tool compressed it."""
    stem, suffix = os.path.splitext(name)
    return stem if suffix in SUFFIXES.values() else name


def check_compression(choice: CompressionChoice) -> None:
    """Raise ValueError unless the argument ``compression`` has one of its values."""
    check_choice("compression", choice, ("auto", None, *COMPRESSIONS))


def detect_compression(head: bytes) -> Compression | None:
    """Return the compression of a TFRecord file, given its first bytes.

    A valid TFRecord header decides first: the length of a record can look like the start of a gzip
    or zlib file. Damaged gzip and zlib files are still recognized.
    """
    if is_record_header(head):
        return None
    if is_gzip_magic(head):
        return "gzip"
    if is_zstd_magic(head):
        return "zstd"
    if is_zlib_header(head) and (_decode(head, "zlib") is not None or not _is_plain(head)):
        return "zlib"
    # The first two bytes may be damaged: what follows them proves what they were.
    for compression, magic in _MAGIC.items():
        if is_record_header(_decode(magic + head[2:], compression, _RECORD_HEADER_BYTES) or b""):
            return compression
    return None


def detect_by_magic(head: bytes) -> Compression | None:
    """Return the compression of a file of any format if its first bytes prove it, else None.

    Zlib streams are not recognized: text may start like one, for example with "80".
    """
    # RFC 1952, section 2.3: deflate is the only method, and three flags must be zero.
    if is_zstd_magic(head):
        return "zstd"
    is_gzip = is_gzip_magic(head) and head[2:3] == b"\x08" and len(head) > 3 and head[3] & 0xE0 == 0
    return "gzip" if is_gzip else None


def is_gzip_magic(head: bytes) -> bool:
    """Return whether bytes start with the two bytes that every gzip member starts with."""
    return head.startswith(_MAGIC["gzip"])


def is_zstd_magic(head: bytes) -> bool:
    """Return whether bytes start with the four bytes of a Zstandard frame."""
    return head.startswith(_ZSTD_MAGIC)


def may_start(compression: Compression, head: bytes) -> bool:
    """Return whether bytes start a member, stream or frame, as far as they go."""
    if compression == "zlib":
        return _is_zlib_method(head[0]) if len(head) == 1 else is_zlib_header(head)
    magics = _ZSTD_MAGIC if compression == "zstd" else (_MAGIC["gzip"],)
    return any(magic.startswith(head[: len(magic)]) for magic in magics)


def is_zlib_header(head: bytes) -> bool:
    """Return whether bytes start with a zlib header.

    RFC 1950, section 2.2: deflate, a window of at most 32 KiB, and a check value.
    """
    return len(head) >= 2 and _is_zlib_method(head[0]) and int.from_bytes(head[:2], "big") % 31 == 0


def _is_zlib_method(byte: int) -> bool:
    """Return whether a byte can be the first one of a zlib header."""
    return byte & 0x0F == 8 and byte >> 4 <= 7


def is_record_header(head: bytes) -> bool:
    """Return whether bytes start with a TFRecord header: a length and its checksum."""
    if len(head) < _RECORD_HEADER_BYTES:
        return False
    return _core.mask_crc(crc32c(head[:8])) == int.from_bytes(head[8:12], "little")


def is_text(head: bytes) -> bool:
    """Return whether a file starts with ASCII text, given its first bytes."""
    return not head[:_TEXT_BYTES].translate(None, _TEXT)


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of bytes."""
    return _core.crc32c(np.frombuffer(data, np.uint8))


def _decode(head: bytes, compression: Compression, limit: int = 0) -> bytes | None:
    """Return decoded bytes, all or at most a number of them; None if the stream is damaged."""
    try:
        return zlib.decompressobj(WINDOW_BITS[compression]).decompress(head, limit)
    except zlib.error:
        return None


def _is_plain(head: bytes) -> bool:
    """Return whether a file that starts like zlib, but is not valid, is probably not compressed.

    Text may start like that ("x^"). So may a TFRecord file with a damaged header: the upper half of
    a record's length is zero, while encoders write no deflate stream with four zeros there.
    """
    return is_text(head) or head[4:8] == bytes(4)
