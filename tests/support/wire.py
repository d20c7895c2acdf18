"""Protobuf's wire format, for messages that no library writes."""

from __future__ import annotations

import struct
from collections.abc import Iterable

VARINT, FIXED64, DELIMITED, GROUP, END_GROUP, FIXED32 = range(6)


def varint(value: int, size: int = 0) -> bytes:
    """Encode a varint of at least ``size`` bytes. Negative values are 64-bit two's complement."""
    value %= 1 << 64
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    while len(out) < size:
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


def tag(number: int, wire_type: int, size: int = 0) -> bytes:
    """Encode the tag of a field."""
    return varint(number << 3 | wire_type, size)


def delimited(number: int, payload: bytes, tag_size: int = 0, length_size: int = 0) -> bytes:
    """Encode a field with a length."""
    return tag(number, DELIMITED, tag_size) + varint(len(payload), length_size) + payload


def example(*entries: bytes) -> bytes:
    """Encode an Example with one Features message."""
    return delimited(1, b"".join(entries))


def entry(key: str | bytes, feature: bytes) -> bytes:
    """Encode a map entry in the usual form."""
    name = key.encode() if isinstance(key, str) else key
    return delimited(1, delimited(1, name) + delimited(2, feature))


def packed_ints(values: Iterable[int]) -> bytes:
    """Encode an Int64List as one packed chunk."""
    return delimited(1, b"".join(varint(value) for value in values))


def unpacked_ints(values: Iterable[int]) -> bytes:
    """Encode an Int64List with unpacked values."""
    return b"".join(tag(1, VARINT) + varint(value) for value in values)


def packed_floats(values: Iterable[float]) -> bytes:
    """Encode a FloatList as one packed chunk."""
    return delimited(1, b"".join(struct.pack("<f", value) for value in values))


def unpacked_floats(values: Iterable[float]) -> bytes:
    """Encode a FloatList with unpacked values."""
    return b"".join(tag(1, FIXED32) + struct.pack("<f", value) for value in values)


def bytes_values(values: Iterable[bytes]) -> bytes:
    """Encode a BytesList."""
    return b"".join(delimited(1, value) for value in values)


def bytes_feature(*values: bytes) -> bytes:
    """Encode a Feature with a BytesList."""
    return delimited(1, bytes_values(values))


def float_feature(*values: float) -> bytes:
    """Encode a Feature with a FloatList."""
    return delimited(2, packed_floats(values) if values else b"")


def int_feature(*values: int) -> bytes:
    """Encode a Feature with an Int64List."""
    return delimited(3, packed_ints(values) if values else b"")
