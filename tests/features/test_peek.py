"""peek: the features of a record of unknown schema, as protobuf reads them."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages import Example, SequenceExample
from torchrec_io.features.peek import peek, peek_sequence

FIELDS = {"bytes": "bytes_list", "float": "float_list", "int64": "int64_list"}

floats = st.floats(width=32, allow_nan=False)
values: st.SearchStrategy[tuple[str, list[Any]]] = st.one_of(
    st.tuples(st.just("bytes"), st.lists(st.binary(max_size=9), max_size=4)),
    st.tuples(st.just("float"), st.lists(floats, max_size=4)),
    st.tuples(st.just("int64"), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4)),
    st.tuples(st.just("none"), st.just([])),
)
features = st.dictionaries(st.text(max_size=5), values, max_size=5)


def fill(message: Any, wanted: dict[str, tuple[str, list[Any]]]) -> None:
    for name, (kind, items) in wanted.items():
        feature = message.feature[name]
        if kind != "none":
            part = getattr(feature, FIELDS[kind])
            part.SetInParent()
            part.value.extend(items)


@given(features)
def test_gives_what_was_put_in(wanted: dict[str, tuple[str, list[Any]]]) -> None:
    example = Example()
    fill(example.features, wanted)
    assert peek(example.SerializeToString()) == wanted


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
    assert peek_sequence(sequence.SerializeToString()) == (context, lists)


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
def test_any_bytes_are_read_as_protobuf_reads_them(
    wanted: dict[str, tuple[str, list[Any]]], changes: list[tuple[int, int]]
) -> None:
    example = Example()
    fill(example.features, wanted)
    record = bytearray(example.SerializeToString())
    for at, byte in changes:
        if at < len(record):
            record[at] = byte
    ours, theirs = peek(bytes(record)), as_protobuf_reads(bytes(record))
    if theirs is None:
        # Keys that are not UTF-8 are the one thing that is read here and not there.
        assert ours is None or any(not _is_text(name) for name in ours)
    else:
        assert repr((ours and {k: tuple(v) for k, v in ours.items()}) or {}) == repr(
            {name: theirs[name] for name in ours or {}}
        )
        assert ours is not None
        assert set(ours) == set(theirs)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


@given(st.binary(max_size=60))
def test_never_raises(record: bytes) -> None:
    peek(record)
    peek_sequence(record)
