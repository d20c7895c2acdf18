"""Several records in one input: a message of ``repeated bytes record = 1``."""

from __future__ import annotations

from tests.support.wire import delimited

_MOST_RECORDS = 4


def records_of(data: bytes) -> list[bytes]:
    """Return the records of an input; the input itself if it is no such message."""
    records: list[bytes] = []
    at = 0
    while at < len(data) and len(records) < _MOST_RECORDS:
        size = _short_varint(data[at + 1 : at + 3])
        if data[at] != 0x0A or size is None:
            return [data]
        length, width = size
        at += 1 + width
        if length > len(data) - at:
            return [data]
        records.append(data[at : at + length])
        at += length
    return records


def seed_of(records: list[bytes]) -> bytes:
    """Return the input of some records."""
    return b"".join(delimited(1, record) for record in records)


def _short_varint(data: bytes) -> tuple[int, int] | None:
    """Return a varint of at most two bytes and its size."""
    if data[:1] and data[0] < 0x80:
        return data[0], 1
    if len(data) == 2 and data[1] < 0x80:
        return data[0] & 0x7F | data[1] << 7, 2
    return None
