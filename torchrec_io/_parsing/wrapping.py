"""Records of other formats, wrapped into Examples so that the parser of Examples reads them.

Each record becomes an Example whose bytes features are parts of the record. This copies it once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _core
from .._records.record_block import RecordBlock
from .._schema.dtypes import item_bytes
from .._schema.schema import Schema
from .._schema.stored_specs import RawFeature
from ..checks import counted
from ..errors import SchemaError

# Tags of the fields 1 and 2 of a message, with bytes or a message.
_FIRST, _SECOND = b"\x0a", b"\x12"


class FixedLengthWrapper:
    """Wraps records of a fixed length, which are a sequence of fields.

    Args:
        features: RawFeature of each field, in the order stored.
        record_bytes: Size of a record, in bytes.

    Attributes:
        schema: Schema of the Examples.

    Raises:
        SchemaError: If a feature is not a RawFeature with a shape, or the sizes of the features do
            not add up to ``record_bytes``.
    """

    def __init__(self, features: Mapping[str, Any] | Schema, record_bytes: int) -> None:
        self.schema = Schema.of(features)
        sizes = {name: _field_bytes(name, spec) for name, spec in self.schema.items()}
        if sum(sizes.values()) != record_bytes:
            parts = ", ".join(f"{name!r} {size}" for name, size in sizes.items())
            raise SchemaError(
                f"the sizes of the features must add up to {record_bytes} bytes, the size of a "
                f"record, got {sum(sizes.values())} ({parts})"
            )
        # An Example of zeros, and its fields: offset in the record, size, offset in the Example.
        example = b""
        fields: list[tuple[int, int, int]] = []
        at = 0
        for name, size in sizes.items():
            example += _value_prefix(name, size)
            fields.append((at, size, len(example)))
            example += bytes(size)
            at += size
        front = field_prefix(_FIRST, len(example))
        self._row = np.frombuffer(front + example, np.uint8)
        self._fields = np.array(fields, np.int64)
        self._fields[:, 2] += len(front)

    def wrap(self, block: RecordBlock) -> RecordBlock:
        """Return records as Examples."""
        size = len(self._row)
        buffer = _core.allocate(len(block) * size)
        buffer.reshape(len(block), size)[...] = self._row
        starts = np.arange(len(block), dtype=np.int64) * size
        ranges = np.repeat(self._fields[np.newaxis], len(block), axis=0)
        ranges[:, :, 0] += block.starts[:, np.newaxis]
        ranges[:, :, 2] += starts[:, np.newaxis]
        _core.gather(block.buffer, ranges.reshape(-1, 3), buffer)
        return RecordBlock(buffer, starts, np.full(len(block), size, np.int64), block.numbers)


class WholeFileWrapper:
    """Wraps whole files, each of which is the value of one feature.

    Args:
        features: One feature that is stored as one bytes value.

    Attributes:
        schema: Schema of the Examples.

    Raises:
        SchemaError: If there are several features, or the feature is not stored as one bytes value.
    """

    def __init__(self, features: Mapping[str, Any] | Schema) -> None:
        self.schema = Schema.of(features)
        if self.schema.is_sequence or len(self.schema) != 1:
            raise SchemaError(
                "the schema of whole files must be a dict of one feature, got "
                f"{counted(len(self.schema), 'feature')}"
            )
        [(name, spec)] = self.schema.items()
        values, *others = spec.stored_keys(name)
        if others or values[:3] != (name, "dense", "string"):
            raise SchemaError(
                "the feature of whole files must be an ImageFeature, a RawFeature with a shape, a "
                "SerializedTensorFeature or a FixedLenFeature([], 'string'), got "
                f"{type(spec).__name__}",
                feature=name,
            )
        self._name = name

    def wrap(self, block: RecordBlock) -> RecordBlock:
        """Return records as Examples."""
        prefixes = [self._prefix(length) for length in block.lengths.tolist()]
        lengths = np.array([len(prefix) for prefix in prefixes], np.int64)
        sizes = lengths + block.lengths
        starts = np.cumsum(sizes) - sizes
        buffer = _core.allocate(int(sizes.sum()))
        joined = np.frombuffer(b"".join(prefixes), np.uint8)
        _core.gather(
            joined, np.stack((np.cumsum(lengths) - lengths, lengths, starts), axis=1), buffer
        )
        contents = np.stack((block.starts, block.lengths, starts + lengths), axis=1)
        _core.gather(block.buffer, contents, buffer)
        return RecordBlock(buffer, starts, sizes, block.numbers)

    def _prefix(self, length: int) -> bytes:
        prefix = _value_prefix(self._name, length)
        return field_prefix(_FIRST, len(prefix) + length) + prefix


def _field_bytes(name: str, spec: Any) -> int:
    """Return the size of a field, in bytes."""
    shape = spec.known_shape if isinstance(spec, RawFeature) else None
    if shape is None or spec.compression is not None or spec.value_key is not None:
        raise SchemaError(
            "a field of a record of fixed length must be a RawFeature with a shape, without "
            f"compression and value_key, got {spec!r}",
            feature=name,
        )
    return math.prod(shape) * item_bytes(spec.dtype)


def _value_prefix(name: str, size: int) -> bytes:
    """Return the bytes before the value of a bytes feature, from its entry in ``Features``."""
    key = name.encode()
    value = field_prefix(_FIRST, size)  # of BytesList
    values = field_prefix(_FIRST, len(value) + size)  # of Feature
    feature = field_prefix(_SECOND, len(values) + len(value) + size)  # of the map's entry
    entry = field_prefix(_FIRST, len(key)) + key + feature + values + value
    return field_prefix(_FIRST, len(entry) + size) + entry


def field_prefix(tag: bytes, size: int) -> bytes:
    """Return the bytes before the content of a field: its tag, and the size as a varint."""
    prefix = bytearray(tag)
    while size > 0x7F:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    prefix.append(size)
    return bytes(prefix)
