"""The kind of a file's records, recognized from the bytes of some of them.

There is no name of the kind in a TFRecord file, so these are guesses, but strict ones: all records
must agree.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from .inspect import (
    InspectedFeature,
    inspect_example,
    inspect_example_list,
    inspect_sequence_example,
)
from .sniff import TEXT, sniff

if TYPE_CHECKING:
    from .known_messages import MessageField


class ShownField(NamedTuple):
    """A feature or another field of a record, to show it.

    Attributes:
        kind: Type of the values, such as ``"int64"``; "none" for a feature without a list.
        values: The values. For a feature list: the values of each step. For a list of examples:
            the values in each example, None where an example does not have the feature.
        noun: What the items of ``values`` are, in the plural: "values", "steps" or "examples".
    """

    kind: str
    values: Sequence[Any]
    noun: str = "values"


_MIN_MESSAGE_BYTES = 16

Parts: TypeAlias = Mapping[str, Mapping[str, ShownField]]


class RecordKind(NamedTuple):
    """A kind of records.

    Attributes:
        name: Name to show.
        read: Returns the fields of a record by part and name; None if it is not of this kind.
            Text and bytes have no fields.
    """

    name: str
    read: Callable[[bytes], Parts | None]


def group_by_kind(records: Sequence[bytes]) -> list[tuple[RecordKind, list[int]]]:
    """Return the kinds of records, and the positions of the records of each kind.

    Records of a file have the same kind if there is one that fits them all. Otherwise the kind of
    each record is recognized alone. Empty records are of every kind.
    """
    filled = [record for record in records if record]
    kind = recognize_kind(filled)
    if kind is not BYTES or len(filled) < 2:
        return [(kind, list(range(len(records))))]
    groups: dict[RecordKind, list[int]] = {}
    for position, record in enumerate(records):
        own = recognize_kind([record] if record else [])
        groups.setdefault(own, []).append(position)
    return list(groups.items())


def recognize_kind(records: Sequence[bytes]) -> RecordKind:
    """Return the kind of records, of which none is empty."""
    if not records:
        return BYTES
    return _example_kind(records) or _message_kind(records) or _loose_kind(records)


def _message_kind(records: Sequence[bytes]) -> RecordKind | None:
    if _are_example_lists(records):
        return EXAMPLE_LIST
    return next((kind for kind in _known_kinds() if _reads_all(kind, records)), None)


def _loose_kind(records: Sequence[bytes]) -> RecordKind:
    """Return the kind of records that have no distinctive fields."""
    if all(sniff(record) == TEXT for record in records):
        return PLAIN_TEXT
    if _are_empty_examples(records):
        return EXAMPLE
    # A few bytes are often a valid message by chance.
    is_long = sum(map(len, records)) >= _MIN_MESSAGE_BYTES
    return UNKNOWN if is_long and _reads_all(UNKNOWN, records) else BYTES


def _reads_all(kind: RecordKind, records: Sequence[bytes]) -> bool:
    return all(kind.read(record) is not None for record in records)


def natural_key(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts ``c2`` before ``c10``."""
    parts = re.split(r"([0-9]+)", name)
    # Digits are compared by their count first: Python limits the length of numbers in text.
    return [
        (len(part.lstrip("0")), part.lstrip("0")) if at % 2 else (0, part)
        for at, part in enumerate(parts)
    ]


# ---- Examples ----


def _read_example(record: bytes) -> Parts | None:
    features = inspect_example(record)
    return None if features is None else {"features": _shown(features)}


def _read_sequence(record: bytes) -> Parts | None:
    found = inspect_sequence_example(record)
    if found is None:
        return None
    context, lists = found
    shown = {name: _joined(lists[name], "steps") for name in sorted(lists, key=natural_key)}
    return {"context": _shown(context), "feature_lists": shown}


def _read_example_list(record: bytes) -> Parts | None:
    found = inspect_example_list(record)
    if found is None:
        return None
    names = {name for example in found.examples for name in example}
    shown = {
        name: _joined([example.get(name) for example in found.examples], "examples")
        for name in sorted(names, key=natural_key)
    }
    return {"context": _shown(found.context), "examples": shown}


def _shown(features: Mapping[str, InspectedFeature]) -> dict[str, ShownField]:
    return {
        name: ShownField(features[name].kind, features[name].values)
        for name in sorted(features, key=natural_key)
    }


def _joined(items: Iterable[InspectedFeature | None], noun: str) -> ShownField:
    items = list(items)
    kinds = {item.kind for item in items if item is not None}
    kind = "/".join(sorted(kinds - {"none"} or kinds)) or "none"
    return ShownField(kind, [None if item is None else item.values for item in items], noun)


def _example_kind(records: Sequence[bytes]) -> RecordKind | None:
    """Return whether records are Examples or SequenceExamples, if a feature has a list."""
    has_values = has_lists = False
    for record in records:
        found = inspect_sequence_example(record)
        if found is None:
            return None
        has_values = has_values or _have_values(*found)
        has_lists = has_lists or bool(found[1])
    if not has_values:
        return None
    return SEQUENCE if has_lists else EXAMPLE


def _have_values(
    context: Mapping[str, InspectedFeature], lists: Mapping[str, list[InspectedFeature]]
) -> bool:
    steps = [step for found in lists.values() for step in found]
    return any(feature.kind != "none" for feature in [*context.values(), *steps])


def _are_example_lists(records: Sequence[bytes]) -> bool:
    """Return whether records are lists of examples; some of these also read as a SequenceExample.

    But then no feature has a list.
    """
    found = [inspect_example_list(record) for record in records]
    examples = [example for one in found if one is not None for example in one.examples]
    if None in found or not any(_have_values(example, {}) for example in examples):
        return False
    return not any(
        _have_values(*(inspect_sequence_example(record) or ({}, {}))) for record in records
    )


def _are_empty_examples(records: Sequence[bytes]) -> bool:
    """Return whether records may be Examples whose features are all without a list."""
    names = [inspect_example(record) for record in records]
    return all(found and all(name.isprintable() for name in found) for found in names)


# ---- other messages, text and bytes ----


@functools.cache
def _known_kinds() -> tuple[RecordKind, ...]:
    from .known_messages import KNOWN_NAMES, read_known  # noqa: PLC0415  # Examples need no protobuf

    def kind_of(name: str) -> RecordKind:
        return RecordKind(name, lambda record: _message(read_known(record, name)))

    return tuple(map(kind_of, KNOWN_NAMES))


def _read_unknown(record: bytes) -> Parts | None:
    from .known_messages import read_unknown  # noqa: PLC0415  # Examples need no protobuf

    return _message(read_unknown(record))


def _message(fields: list[MessageField] | None) -> Parts | None:
    if fields is None:
        return None
    shown: dict[str, ShownField] = {}
    for name, kind, values in fields:
        # The tags of a TensorBoard summary may be repeated.
        before = shown.get(name, ShownField(kind, []))
        shown[name] = ShownField(kind, [*before.values, *values])
    return {"message": shown}


def _no_fields(_: bytes) -> Parts | None:
    return None


EXAMPLE = RecordKind("tf.train.Example", _read_example)
SEQUENCE = RecordKind("tf.train.SequenceExample", _read_sequence)
EXAMPLE_LIST = RecordKind("ExampleListWithContext (ELWC)", _read_example_list)
UNKNOWN = RecordKind("protobuf message of unknown type", _read_unknown)
PLAIN_TEXT = RecordKind("plain text", _no_fields)
BYTES = RecordKind("bytes of unknown meaning", _no_fields)
