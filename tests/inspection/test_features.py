"""The features of records whose schema is not known, compared with protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from tests.support import spellings
from tests.support.examples import sequence_example_of
from tests.support.wire import entry, example, int_feature
from torchrec_io.inspection.features import ShownField
from torchrec_io.inspection.record_kind import EXAMPLE, SEQUENCE

values: st.SearchStrategy[tuple[str, list[Any]]] = st.one_of(
    st.tuples(st.just("bytes"), st.lists(st.binary(max_size=9), max_size=4)),
    st.tuples(st.just("float"), st.lists(st.floats(width=32, allow_nan=False), max_size=4)),
    st.tuples(st.just("int64"), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4)),
    st.tuples(st.just("none"), st.just([])),
)
features = st.dictionaries(st.text(max_size=5), values, max_size=5)
Found = dict[str, tuple[str, Any]]


def plain(features: Mapping[str, ShownField]) -> Found:
    return {name: each[:2] for name, each in features.items()}


def read(record: bytes) -> Found | None:
    parts = EXAMPLE.read(record)
    return None if parts is None else plain(parts["features"])


def as_protobuf_reads(record: bytes) -> Found | None:
    try:
        found = spellings.read_loosely(record, spellings.KEYS)
    except DecodeError:
        return None
    return {
        key: ("none" if kind is None else kind.removesuffix("_list"), items)
        for key, (kind, items) in found.items()
    }


def known(features: Found) -> list[tuple[str, str]]:
    """Return the features with known keys. NaN is not equal to itself, but its text is."""
    return sorted((key, repr(each)) for key, each in features.items() if key in spellings.KEYS)


@given(features, st.dictionaries(st.text(max_size=5), st.lists(values, max_size=3), max_size=3))
def test_sequences(
    context: dict[str, tuple[str, list[Any]]], lists: dict[str, list[tuple[str, list[Any]]]]
) -> None:
    found = SEQUENCE.read(sequence_example_of(context, lists))
    assert found is not None
    assert plain(found["context"]) == context
    assert plain(found["feature_lists"]) == {
        name: ("/".join(sorted(kinds_of(steps))) or "none", [values for _, values in steps])
        for name, steps in lists.items()
    }


def kinds_of(steps: list[tuple[str, list[Any]]]) -> set[str]:
    kinds = {kind for kind, _ in steps}
    return kinds - {"none"} or kinds


@given(spellings.example_bytes())
def test_every_spelling_is_read_as_protobuf_reads_it(record: bytes) -> None:
    ours, theirs = read(record), as_protobuf_reads(record)
    assert ours is not None
    assert theirs is not None
    assert known(ours) == known(theirs)


@given(spellings.damaged())
def test_damaged_records_are_read_as_protobuf_reads_them_or_are_no_examples(record: bytes) -> None:
    ours, theirs = read(record), as_protobuf_reads(record)
    if ours is None and spellings.has_groups(record):
        return  # protobuf takes field number 0 inside of a group
    assert (ours is None) == (theirs is None)
    assert known(ours or {}) == known(theirs or {})


def test_keys_that_are_not_utf8_are_kept() -> None:
    [name] = read(example(entry(b"\xff", int_feature(7)))) or {}
    assert name.encode("utf-8", "surrogateescape") == b"\xff"


@given(st.binary(max_size=60))
def test_never_raises(record: bytes) -> None:
    read(record)
    SEQUENCE.read(record)
