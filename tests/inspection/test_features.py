"""The features of records whose schema is not known, compared with protobuf."""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.messages import Example, Feature, SequenceExample
from torchrec_io.inspection.features import ShownField
from torchrec_io.inspection.record_kind import EXAMPLE, SEQUENCE

FIELDS = {"bytes": "bytes_list", "float": "float_list", "int64": "int64_list"}

floats = st.floats(width=32, allow_nan=False)
values: st.SearchStrategy[tuple[str, list[Any]]] = st.one_of(
    st.tuples(st.just("bytes"), st.lists(st.binary(max_size=9), max_size=4)),
    st.tuples(st.just("float"), st.lists(floats, max_size=4)),
    st.tuples(st.just("int64"), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4)),
    st.tuples(st.just("none"), st.just([])),
)
features = st.dictionaries(st.text(max_size=5), values, max_size=5)


def inspect_example(record: bytes) -> Mapping[str, ShownField] | None:
    parts = EXAMPLE.read(record)
    return None if parts is None else parts["features"]


def plain(features: Mapping[str, ShownField] | None) -> dict[str, tuple[str, Any]] | None:
    return None if features is None else {name: each[:2] for name, each in features.items()}


def fill(message: Any, wanted: dict[str, tuple[str, list[Any]]]) -> None:
    for name, (kind, items) in wanted.items():
        feature = message.feature[name]
        if kind != "none":
            part = getattr(feature, FIELDS[kind])
            part.SetInParent()
            part.value.extend(items)


@given(features)
def test_round_trip(wanted: dict[str, tuple[str, list[Any]]]) -> None:
    example = Example()
    fill(example.features, wanted)
    assert plain(inspect_example(example.SerializeToString())) == wanted


@given(features, st.dictionaries(st.text(max_size=5), st.lists(values, max_size=3), max_size=3))
def test_sequences(
    context: dict[str, tuple[str, list[Any]]], lists: dict[str, list[tuple[str, list[Any]]]]
) -> None:
    sequence = SequenceExample()
    fill(sequence.context, context)
    for name, steps in lists.items():
        target = sequence.feature_lists.feature_list[name]
        for kind, items in steps:
            feature = target.feature.add()
            if kind != "none":
                getattr(feature, FIELDS[kind]).SetInParent()
                getattr(feature, FIELDS[kind]).value.extend(items)
    found = SEQUENCE.read(sequence.SerializeToString())
    assert found is not None
    assert plain(found["context"]) == context
    assert plain(found["feature_lists"]) == {
        name: ("/".join(sorted(kinds_of(steps))) or "none", [values for _, values in steps])
        for name, steps in lists.items()
    }


def kinds_of(steps: list[tuple[str, list[Any]]]) -> set[str]:
    kinds = {kind for kind, _ in steps}
    return kinds - {"none"} or kinds


def as_protobuf_reads(record: bytes) -> dict[str, tuple[str, list[Any]]] | None:
    try:
        example = Example.FromString(record)
    except DecodeError:
        return None
    read = {}
    for name, feature in example.features.feature.items():
        field = feature.WhichOneof("kind")
        items = [] if field is None else list(getattr(feature, field).value)
        read[name] = ("none" if field is None else field.removesuffix("_list"), items)
    return read


@given(features, st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4))
@example({"000\x80\x80": ("bytes", [b"\x80", b""])}, [(2, 193)])  # an entry with two keys
def test_any_bytes_are_read_as_protobuf_reads_them(
    wanted: dict[str, tuple[str, list[Any]]], changes: list[tuple[int, int]]
) -> None:
    example = Example()
    fill(example.features, wanted)
    record = bytearray(example.SerializeToString())
    for at, byte in changes:
        if at < len(record):
            record[at] = byte
    ours = plain(inspect_example(bytes(record)))
    theirs = as_entries_are_read(bytes(record))
    assert (ours is None) == (theirs is None)
    # NaN is not equal to itself.
    assert repr(sorted((ours or {}).items())) == repr(sorted((theirs or {}).items()))


def as_entries_are_read(record: bytes) -> dict[str, tuple[str, list[Any]]] | None:
    """The features of an Example whose entries are messages, not those of a map.

    Protobuf's own implementations part where the entry of a map has unknown fields.
    """
    try:
        message = _message_with_bytes_as_keys().FromString(record)
    except DecodeError:
        return None
    read = {}
    for entry in message.features.feature:
        kind = entry.value.WhichOneof("kind")
        items = [] if kind is None else list(getattr(entry.value, kind).value)
        name = entry.key.decode("utf-8", "surrogateescape")
        read[name] = ("none" if kind is None else kind.removesuffix("_list"), items)
    return read


@functools.cache
def _message_with_bytes_as_keys() -> Any:
    """The message Example with an entry type whose key is bytes, of any content."""
    file = descriptor_pb2.FileDescriptorProto(name="any_keys.proto", package="any_keys")
    file.dependency.append(Example.DESCRIPTOR.file.name)
    messages: dict[str, list[tuple[str, int, int, str | None]]] = {
        "Entry": [("key", 1, 1, None), ("value", 2, 1, f".{Feature.DESCRIPTOR.full_name}")],
        "Features": [("feature", 1, 3, ".any_keys.Entry")],
        "Example": [("features", 1, 1, ".any_keys.Features")],
    }
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, number, label, type_name in fields:
            kind = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
            if type_name is None:
                kind = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
            message.field.add(
                name=field, number=number, label=label, type=kind, type_name=type_name
            )
    pool = descriptor_pool.DescriptorPool()
    for known in (Feature, Example):
        pool.AddSerializedFile(known.DESCRIPTOR.file.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("any_keys.Example"))


# ---- every legal way to write the same thing ----


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    groups = [number >> shift & 0x7F for shift in range(0, 70, 7)]
    while len(groups) > 1 and groups[-1] == 0:
        groups.pop()
    return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])


def delimited(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def joined(parts: st.SearchStrategy[bytes], most: int = 4) -> st.SearchStrategy[bytes]:
    """Some of these, with unknown fields between them."""
    return st.lists(st.one_of(parts, parts, unknown), max_size=most).map(b"".join)


def messages(field: int, content: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return content.map(lambda data: delimited(field, data))


unknown = st.sampled_from(
    [
        varint(9 << 3) + varint(2**64 - 1),
        varint(9 << 3 | 1) + bytes(8),
        varint(9 << 3 | 5) + bytes(4),
        delimited(536870911, b"abc"),
        varint(8 << 3 | 3) + varint(9 << 3 | 3) + varint(9 << 3 | 4) + varint(8 << 3 | 4),
        varint(2 << 3 | 1) + bytes(8),  # known numbers, of wire types that they do not have
        varint(3 << 3) + varint(5),
    ]
)
ints = st.integers(-(2**63), 2**63 - 1)
int_lists = joined(
    st.one_of(
        ints.map(lambda value: varint(1 << 3) + varint(value)),
        st.lists(ints, max_size=3).map(lambda some: delimited(1, b"".join(map(varint, some)))),
    )
)
float_lists = joined(
    st.one_of(
        floats.map(lambda value: varint(1 << 3 | 5) + struct.pack("<f", value)),
        st.lists(floats, max_size=3).map(
            lambda some: delimited(1, struct.pack(f"<{len(some)}f", *some))
        ),
    )
)
bytes_lists = joined(messages(1, st.binary(max_size=4)))
wire_features = joined(
    st.one_of(messages(1, bytes_lists), messages(2, float_lists), messages(3, int_lists))
)
# No unknown fields in a map's entry: protobuf's own implementations part there.
wire_entries = st.lists(
    st.one_of(
        st.sampled_from(["a", "b", "é"]).map(lambda key: delimited(1, key.encode())),
        messages(2, wire_features),
    ),
    max_size=4,
).map(b"".join)
wire_examples = joined(messages(1, joined(messages(1, wire_entries))), most=3)


@given(wire_examples)
def test_every_spelling_is_read_as_protobuf_reads_it(record: bytes) -> None:
    theirs = as_protobuf_reads(record)
    assert theirs is not None
    assert plain(inspect_example(record)) == theirs


def test_unknown_fields_in_an_entry_are_skipped() -> None:
    value = delimited(2, delimited(3, delimited(1, b"\x07")))
    entry = delimited(1, b"a") + varint(9 << 3) + varint(1) + value
    assert plain(inspect_example(delimited(1, delimited(1, entry)))) == {"a": ("int64", [7])}


@pytest.mark.parametrize(
    "feature",
    [
        delimited(3, delimited(1, b"\x80")),  # a number cut short
        delimited(3, delimited(1, b"\xff" * 11)),  # and one that is too long
        delimited(2, delimited(1, bytes(5))),  # no whole number of floats
        delimited(1, b"\x0a\x7f"),  # longer than what holds it
        b"\x1a\xff\xff\xff\xff\x0f",
        b"\x02",  # field 0
        b"\x0b" * 200,  # groups that nobody closes
        b"\x0c",  # and an end without a beginning
    ],
)
def test_invalid_messages_are_not_examples(feature: bytes) -> None:
    record = delimited(1, delimited(1, delimited(1, b"a") + delimited(2, feature)))
    assert as_protobuf_reads(record) is None
    assert inspect_example(record) is None


def test_keys_that_are_not_utf8_are_kept() -> None:
    record = delimited(1, delimited(1, delimited(1, b"\xff")))
    features = inspect_example(record)
    assert features is not None
    assert [name.encode("utf-8", "surrogateescape") for name in features] == [b"\xff"]


@given(st.binary(max_size=60))
def test_never_raises(record: bytes) -> None:
    inspect_example(record)
    SEQUENCE.read(record)
