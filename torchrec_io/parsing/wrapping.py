"""Records that are no Examples, put into Examples: so all that reads those reads them.

Each record becomes an Example whose bytes features are parts of it, which costs one copy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _core
from ..errors import SchemaError
from ..records.record_block import RecordBlock
from ..schema.dtypes import item_bytes
from ..schema.schema import Schema
from ..schema.stored_keys import shape_key_of, uses_of
from ..schema.stored_specs import RawFeature

# Fields 1 and 2 of a message, length-delimited.
_FIRST, _SECOND = b"\x0a", b"\x12"


class Fields:
    """Records of one length, whose fields follow each other.

    Args:
        features: A RawFeature of each field, in the order stored.
        record_bytes: Of a record.

    Raises:
        SchemaError: a feature is no RawFeature of a shape, or their sizes do not sum to
            ``record_bytes``.
    """

    def __init__(self, features: Mapping[str, Any] | Schema, record_bytes: int) -> None:
        self.schema = Schema.of(features)
        sizes = {name: _field_bytes(name, spec) for name, spec in self.schema.items()}
        if sum(sizes.values()) != record_bytes:
            parts = ", ".join(f"{name!r} {size}" for name, size in sizes.items())
            raise SchemaError(
                f"the features have {sum(sizes.values())} bytes together ({parts}), a record has "
                f"{record_bytes}"
            )
        # An Example of zeros, and its fields: where in the record, of how many bytes, where in it.
        example = b""
        fields: list[tuple[int, int, int]] = []
        at = 0
        for name, size in sizes.items():
            example += _head(name, size)
            fields.append((at, size, len(example)))
            example += bytes(size)
            at += size
        front = lead(_FIRST, len(example))
        self._row = np.frombuffer(front + example, np.uint8)
        self._fields = np.array(fields, np.int64)
        self._fields[:, 2] += len(front)

    def wrap(self, block: RecordBlock) -> RecordBlock:
        """The records as Examples, all at once."""
        size = len(self._row)
        buffer = _core.allocate(len(block) * size)
        buffer.reshape(len(block), size)[...] = self._row
        starts = np.arange(len(block), dtype=np.int64) * size
        ranges = np.repeat(self._fields[np.newaxis], len(block), axis=0)
        ranges[:, :, 0] += block.starts[:, np.newaxis]
        ranges[:, :, 2] += starts[:, np.newaxis]
        _core.gather(block.buffer, ranges.reshape(-1, 3), buffer)
        return RecordBlock(buffer, starts, np.full(len(block), size, np.int64), block.numbers)


class Content:
    """Whole files, each the bytes of one feature.

    Args:
        features: One feature that is stored as one bytes value.

    Raises:
        SchemaError: there are several, or it is of another kind.
    """

    def __init__(self, features: Mapping[str, Any] | Schema) -> None:
        self.schema = Schema.of(features)
        if self.schema.is_sequence or len(self.schema) != 1:
            raise SchemaError("the content of a file is one feature: give a dict of one")
        [(name, spec)] = self.schema.items()
        uses = uses_of(name, spec)
        is_one = [use.manner for use in uses] == [("dense", "string")]
        if not is_one or uses[0].key != name or shape_key_of(spec) is not None:
            raise SchemaError(
                "the content of a file is an ImageFeature, a RawFeature of a shape, a "
                "SerializedTensorFeature or a FixedLenFeature([], 'string'), not a "
                f"{type(spec).__name__} as this one",
                feature=name,
            )
        self._name = name

    def wrap(self, block: RecordBlock) -> RecordBlock:
        """The records as Examples."""
        heads = [self._head(length) for length in block.lengths.tolist()]
        places = np.array([len(head) for head in heads], np.int64)
        sizes = places + block.lengths
        starts = np.cumsum(sizes) - sizes
        buffer = _core.allocate(int(sizes.sum()))
        front = np.frombuffer(b"".join(heads), np.uint8)
        fronts = np.stack((np.cumsum(places) - places, places, starts), axis=1)
        _core.gather(front, fronts, buffer)
        contents = np.stack((block.starts, block.lengths, starts + places), axis=1)
        _core.gather(block.buffer, contents, buffer)
        return RecordBlock(buffer, starts, sizes, block.numbers)

    def _head(self, length: int) -> bytes:
        head = _head(self._name, length)
        return lead(_FIRST, len(head) + length) + head


def _field_bytes(name: str, spec: Any) -> int:
    shape = spec.known_shape if isinstance(spec, RawFeature) else None
    if shape is None or spec.compression is not None or spec.value_key is not None:
        raise SchemaError(
            f"a field of a record of fixed length is a RawFeature of a shape, not {spec!r}",
            feature=name,
        )
    return math.prod(shape) * item_bytes(spec.dtype)


def _head(name: str, size: int) -> bytes:
    """What stands before the bytes value of a feature, from its entry in ``Features`` on."""
    key = name.encode()
    value = lead(_FIRST, size)  # of BytesList
    values = lead(_FIRST, len(value) + size)  # of Feature
    feature = lead(_SECOND, len(values) + len(value) + size)  # of the map's entry
    entry = lead(_FIRST, len(key)) + key + feature + values + value
    return lead(_FIRST, len(entry) + size) + entry


def lead(tag: bytes, size: int) -> bytes:
    """What stands before a field of so many bytes: its tag, and the size as a varint."""
    out = bytearray(tag)
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out)
