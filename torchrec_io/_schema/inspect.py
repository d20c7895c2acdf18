"""The features of a record whose schema is not known, to show them or to infer a schema.

This is plain Python for one record at a time; :mod:`torchrec_io._parsing.parser` is for training.
It reads messages as protobuf does, but keeps names that are not UTF-8: their bytes that cannot be
decoded become surrogates.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["bytes", "float", "int64", "none"]


class InspectedFeature(NamedTuple):
    """A feature of a record.

    Attributes:
        kind: Kind of its list; "none" if it has no list.
        values: Values of the list.
    """

    kind: Kind
    values: list[bytes] | list[float] | list[int]


def inspect_example(record: bytes) -> dict[str, InspectedFeature] | None:
    """Return the features of a serialized ``tf.train.Example``, or None if this is not one.

    An empty record is an Example without features, and so are some other byte strings that happen
    to be valid protobuf. For a ``tf.train.SequenceExample`` the result is its context.
    """
    features: dict[str, InspectedFeature] = {}
    try:
        _read_example(record, 0, len(record), features)
    except _InvalidError:
        return None
    return features


def feature_names(record: bytes) -> list[str] | None:
    """Return the names of the features of an Example without reading their values.

    Returns:
        The names, or None if this is not an Example. A name may be repeated.
    """
    names = stored_names(record)
    return None if names is None else names[0]


def stored_names(record: bytes) -> tuple[list[str], list[str]] | None:
    """Return the names of the features of an Example or the context, and of the feature lists.

    Their values are not read.

    Returns:
        The names, or None if this is neither an Example nor a SequenceExample. A name may be
        repeated.
    """
    names: tuple[list[str], list[str]] = ([], [])
    try:
        for tag, at, end in _fields(record, 0, len(record)):
            if tag in (_FIRST, _SECOND):
                entries = _firsts(record, at, end)
                names[tag == _SECOND].extend(_split_entry(record, *e)[0] for e in entries)
    except _InvalidError:
        return None
    return names


def inspect_sequence_example(
    record: bytes,
) -> tuple[dict[str, InspectedFeature], dict[str, list[InspectedFeature]]] | None:
    """Return the context and the feature lists of a serialized ``tf.train.SequenceExample``.

    Returns:
        The features, or None if this is not a SequenceExample.
    """
    context: dict[str, InspectedFeature] = {}
    lists: dict[str, list[InspectedFeature]] = {}
    try:
        for tag, at, end in _fields(record, 0, len(record)):
            if tag == _FIRST:
                _read_features(record, at, end, context)
            elif tag == _SECOND:
                _read_lists(record, at, end, lists)
    except _InvalidError:
        return None
    return context, lists


class InspectedExampleList(NamedTuple):
    """The features of a context, and of the examples that share it."""

    context: dict[str, InspectedFeature]
    examples: list[dict[str, InspectedFeature]]


def inspect_example_list(record: bytes) -> InspectedExampleList | None:
    """Return the context and the examples of a serialized ``ExampleListWithContext``.

    Returns:
        The features, or None if this is not such a message.
    """
    found = InspectedExampleList({}, [])
    try:
        for tag, at, end in _fields(record, 0, len(record)):
            if tag == _FIRST:
                found.examples.append({})
                _read_example(record, at, end, found.examples[-1])
            elif tag == _SECOND:
                _read_example(record, at, end, found.context)
    except _InvalidError:
        return None
    return found


def is_tensor_proto(data: bytes) -> bool:
    """Return whether bytes may be a ``TensorProto`` that ``tf.io.serialize_tensor`` wrote.

    Such a message starts with the dtype and the shape. The values are not compared with them.
    """
    if not data.startswith(bytes([_ONE_VARINT])):
        return False
    try:
        fields = list(_fields(data, 0, len(data)))
        _, shape_at, shape_end = next(field for field in fields if field[0] == _SECOND)
        shape = {tag for tag, _, _ in _fields(data, shape_at, shape_end)}
    except (_InvalidError, StopIteration):
        return False
    return shape <= {_SECOND} and {tag for tag, _, _ in fields[2:]} <= _TENSOR_VALUES


# ---- messages ----

# Tags of the fields 1, 2 and 3 with bytes or a message.
_FIRST, _SECOND, _THIRD = 0x0A, 0x12, 0x1A
# Tags of field 1 with one number.
_ONE_VARINT, _ONE_FIXED32 = 0x08, 0x0D

# Tags of the fields of a TensorProto with values: bytes, or a list of each kind of number.
_TENSOR_VALUES = {number << 3 | 2 for number in (4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17)}


def _read_example(data: bytes, at: int, end: int, features: dict[str, InspectedFeature]) -> None:
    for part_at, part_end in _firsts(data, at, end):
        _read_features(data, part_at, part_end, features)


def _read_features(data: bytes, at: int, end: int, features: dict[str, InspectedFeature]) -> None:
    for entry in _firsts(data, at, end):
        key, values = _split_entry(data, *entry)
        features[key] = _read_feature(data, values)


def _read_lists(data: bytes, at: int, end: int, lists: dict[str, list[InspectedFeature]]) -> None:
    for entry in _firsts(data, at, end):
        key, values = _split_entry(data, *entry)
        lists[key] = [
            _read_feature(data, [step]) for steps in values for step in _firsts(data, *steps)
        ]


def _split_entry(data: bytes, at: int, end: int) -> tuple[str, list[tuple[int, int]]]:
    """Return the key and the parts of the value of a map's entry; protobuf merges the parts."""
    key = b""
    values = []
    for tag, field_at, field_end in _fields(data, at, end):
        if tag == _FIRST:
            key = data[field_at:field_end]
        elif tag == _SECOND:
            values.append((field_at, field_end))
    return key.decode("utf-8", "surrogateescape"), values


def _read_feature(data: bytes, parts: list[tuple[int, int]]) -> InspectedFeature:
    """Return a feature of the last kind that is stored; its lists in sequence are joined."""
    kind: Kind = "none"
    values: list[Any] = []
    for at, end in parts:
        for tag, list_at, list_end in _fields(data, at, end):
            if tag not in _LISTS:
                continue
            found, read_values = _LISTS[tag]
            if found != kind:
                kind, values = found, []
            values += read_values(data, list_at, list_end)
    return InspectedFeature(kind, values)


def _read_texts(data: bytes, at: int, end: int) -> Iterator[bytes]:
    for start, stop in _firsts(data, at, end):
        yield data[start:stop]


def _read_floats(data: bytes, at: int, end: int) -> Iterator[float]:
    for tag, start, stop in _fields(data, at, end):
        if tag in (_FIRST, _ONE_FIXED32):
            count, spare = divmod(stop - start, 4)
            if spare:
                raise _InvalidError
            yield from struct.unpack_from(f"<{count}f", data, start)


def _read_ints(data: bytes, at: int, end: int) -> Iterator[int]:
    for tag, start, stop in _fields(data, at, end):
        if tag in (_FIRST, _ONE_VARINT):
            offset = start
            while offset < stop:
                value, offset = _varint(data, offset, stop, 10)
                value &= (1 << 64) - 1
                yield value - (1 << 64) if value >> 63 else value


# Kind and reader of each list of values, by the tag of its field.
_LISTS: dict[int, tuple[Kind, Callable[[bytes, int, int], Iterator[Any]]]] = {
    _FIRST: ("bytes", _read_texts),
    _SECOND: ("float", _read_floats),
    _THIRD: ("int64", _read_ints),
}


# ---- the wire format ----


class _InvalidError(Exception):
    """The bytes are not a valid message."""


# Wire types.
_VARINT, _FIXED64, _DELIMITED, _GROUP, _END_GROUP, _FIXED32 = range(6)
_MAX_GROUP_DEPTH = 100


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the tag of each field of a message, and the start and the end of its content."""
    while at < end:
        tag, at = _tag(data, at, end)
        if tag & 7 == _GROUP:
            at = _skip_group(data, at, end, tag)
            continue
        start, at = _content(data, at, end, tag)
        yield tag, start, at


def _firsts(data: bytes, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each field 1 of a message, which is bytes or a message."""
    for tag, start, stop in _fields(data, at, end):
        if tag == _FIRST:
            yield start, stop


def _tag(data: bytes, at: int, end: int) -> tuple[int, int]:
    tag, at = _varint(data, at, end, 5)
    if tag >> 32 or tag >> 3 == 0:
        raise _InvalidError
    return tag, at


def _content(data: bytes, at: int, end: int, tag: int) -> tuple[int, int]:
    kind = tag & 7
    start = at
    if kind == _VARINT:
        _, at = _varint(data, at, end, 10)
    elif kind == _FIXED64:
        at += 8
    elif kind == _FIXED32:
        at += 4
    elif kind == _DELIMITED:
        size, start = _varint(data, at, end, 5)
        at = start + size
    else:
        raise _InvalidError
    if at > end:
        raise _InvalidError
    return start, at


def _skip_group(data: bytes, at: int, end: int, tag: int) -> int:
    """Return the end of a group, an old kind of field that may be among unknown fields."""
    still_open = [tag >> 3]
    while still_open:
        tag, at = _tag(data, at, end)
        if tag & 7 == _GROUP:
            still_open.append(tag >> 3)
            if len(still_open) > _MAX_GROUP_DEPTH:
                raise _InvalidError
        elif tag & 7 == _END_GROUP:
            if still_open.pop() != tag >> 3:
                raise _InvalidError
        else:
            _, at = _content(data, at, end, tag)
    return at


def _varint(data: bytes, at: int, end: int, max_bytes: int) -> tuple[int, int]:
    """Return a number of at most ``max_bytes`` bytes, and its end."""
    value = 0
    for shift in range(0, 7 * max_bytes, 7):
        if at >= end:
            raise _InvalidError
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _InvalidError
