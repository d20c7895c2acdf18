"""The limit of the size of a record: damaged or hostile data must not fill the memory."""

from __future__ import annotations

from ..errors import RecordTooLargeError

# Default of ``max_record_bytes``.
MAX_RECORD_BYTES = 1 << 30


def too_large(size: int, limit: int, *, path: str, record: int, offset: int) -> RecordTooLargeError:
    """Return the error of a record that is larger than the limit.

    Args:
        size: Size of the record in bytes.
        limit: Largest size that is allowed.
        path: Data file.
        record: Number of the record in the file.
        offset: Offset of the record's frame.
    """
    return RecordTooLargeError(
        f"the record claims {size:,} bytes, and max_record_bytes is {limit:,}: pass a larger "
        "max_record_bytes if the record is meant to have this size",
        path=path,
        record=record,
        offset=offset,
    )
