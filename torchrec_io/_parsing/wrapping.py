"""Records of other formats, wrapped into Examples so that the parser of Examples reads them.

Each record becomes an Example whose bytes features are parts of the record. This copies it once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._records.record_block import RecordBlock
from .._schema.dtypes import item_bytes
from .._schema.schema import Schema
from .._schema.stored_specs import RawFeature
from .._storage.byte_source import ByteBuffer
from ..checks import counted
from ..errors import SchemaError
from .arrays import Ints

# Tags of the fields 1 and 2 of a message, with bytes or a message.
_FIRST, _SECOND = b"\x0a", b"\x12"


class Wrapper:
    """Wraps records into Examples: each bytes feature is a field, one after another.

    Args:
        schema: Schema of the Examples.
        sizes: Size of each field in bytes; None for one field, the whole record.

    Attributes:
        schema: Schema of the Examples.
    """

    def __init__(self, schema: Schema, sizes: Sequence[int] | None = None) -> None:
        self.schema = schema
        self._sizes = sizes

    @classmethod
    def of_fixed_length(cls, features: Mapping[str, Any] | Schema, record_bytes: int) -> Wrapper:
        """Return the wrapper of records of a fixed length, which are a sequence of fields.

        Args:
            features: RawFeature of each field, in the order stored.
            record_bytes: Size of a record, in bytes.

        Raises:
            SchemaError: If a feature is not a RawFeature with a shape, or the sizes of the features
                do not add up to ``record_bytes``.
        """
        schema = Schema.of(features)
        sizes = {name: _field_bytes(name, spec) for name, spec in schema.items()}
        if sum(sizes.values()) != record_bytes:
            parts = ", ".join(f"{name!r} {size}" for name, size in sizes.items())
            raise SchemaError(
                f"the sizes of the features must add up to {record_bytes} bytes, the size of a "
                f"record, got {sum(sizes.values())} ({parts})"
            )
        return cls(schema, [*sizes.values()])

    @classmethod
    def of_whole_files(cls, features: Mapping[str, Any] | Schema) -> Wrapper:
        """Return the wrapper of whole files, each of which is the value of one feature.

        Args:
            features: One feature that is stored as one bytes value.

        Raises:
            SchemaError: If there are several features, or the feature is not stored as one bytes
                value.
        """
        schema = Schema.of(features)
        if schema.is_sequence or len(schema) != 1:
            raise SchemaError(
                "the schema of whole files must be a dict of one feature, got "
                f"{counted(len(schema), 'feature')}"
            )
        [(name, spec)] = schema.items()
        values, *others = spec.stored_keys(name)
        if others or values[:3] != (name, "dense", "string"):
            raise SchemaError(
                "the feature of whole files must be an ImageFeature, a RawFeature with a shape, a "
                "SerializedTensorFeature or a FixedLenFeature([], 'string'), without key, got "
                f"{type(spec).__name__}",
                feature=name,
            )
        return cls(schema)

    def wrap(self, block: RecordBlock) -> RecordBlock:
        """Return records as Examples."""
        lengths, which = np.unique(block.lengths, return_inverse=True)
        # All of these are [lengths, fields], and [records, fields] by `which`.
        sizes = np.array([self._sizes or (length,) for length in lengths], np.int64)
        sizes = sizes.reshape(-1, len(self.schema))
        prefixes = [prefix for row in sizes.tolist() for prefix in self._prefixes(row)]
        prefix_sizes = np.array([len(prefix) for prefix in prefixes], np.int64)
        prefix_starts = (np.cumsum(prefix_sizes) - prefix_sizes).reshape(sizes.shape)
        prefix_sizes = prefix_sizes.reshape(sizes.shape)
        field_starts = np.cumsum(sizes, axis=1) - sizes
        wrapped = (prefix_sizes + sizes)[which]
        starts = (np.cumsum(wrapped) - wrapped.ravel()).reshape(wrapped.shape)
        buffer = _core.allocate(int(wrapped.sum()))
        joined = np.frombuffer(b"".join(prefixes), np.uint8)
        _gather(joined, prefix_starts[which], prefix_sizes[which], starts, buffer)
        stored = block.starts[:, np.newaxis] + field_starts[which]
        _gather(block.buffer, stored, sizes[which], starts + prefix_sizes[which], buffer)
        return RecordBlock(buffer, starts[:, 0].copy(), wrapped.sum(axis=1), block.numbers)

    def _prefixes(self, sizes: Sequence[int]) -> list[bytes]:
        """Return the bytes before each field of an Example."""
        first, *others = map(_value_prefix, self.schema, sizes)
        front = field_prefix(_FIRST, len(first) + len(b"".join(others)) + sum(sizes))
        return [front + first, *others]


def _gather(source: ByteBuffer, starts: Ints, sizes: Ints, targets: Ints, out: ByteBuffer) -> None:
    """Copy parts of a buffer to their places in another one."""
    _core.gather(source, np.stack((starts, sizes, targets), axis=-1).reshape(-1, 3), out)


def _field_bytes(name: str, spec: Any) -> int:
    """Return the size of a field, in bytes."""
    shape = spec.known_shape if isinstance(spec, RawFeature) else None
    is_cropped = isinstance(spec, RawFeature) and spec.cropped is not None
    if shape is None or spec.compression is not None or spec.key is not None or is_cropped:
        raise SchemaError(
            "a field of a record of fixed length must be a RawFeature with a shape, without "
            f"compression, key, size and augment, got {spec!r}",
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
