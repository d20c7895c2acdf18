"""The kind of a file's records, recognized from the bytes of some of them.

There is no name of the kind in a TFRecord file, so these are guesses, but strict ones: all records
must agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from .._parsing.stored_names import name_of
from .byte_formats import TEXT, sniff
from .dynamic_messages import parse_message
from .features import Parts, RecordKind, ShownField
from .known_messages import KNOWN_KINDS, read_unknown

_MIN_MESSAGE_BYTES = 16


class RecordGroup(NamedTuple):
    """Records of one kind.

    Attributes:
        kind: Kind of the records.
        positions: Positions of the records among all.
        parts: Fields of each record; None for an empty record, text and bytes.
    """

    kind: RecordKind
    positions: list[int]
    parts: list[Parts | None]


def group_by_kind(records: Sequence[bytes]) -> list[RecordGroup]:
    """Return records by kind, with their fields, which are read once.

    Records of a file have the same kind if there is one that fits them all. Otherwise the kind of
    each record is recognized alone. Empty records are of every kind.
    """
    filled = [record for record in records if record]
    kind, read = _recognize(filled)
    if kind is not BYTES or len(filled) < 2:
        following = iter(read)
        parts = [next(following) if record else None for record in records]
        return [RecordGroup(kind, list(range(len(records))), parts)]
    groups: dict[RecordKind, RecordGroup] = {}
    for position, record in enumerate(records):
        own, read = _recognize([record] if record else [])
        group = groups.setdefault(own, RecordGroup(own, [], []))
        group.positions.append(position)
        group.parts.append(read[0] if read else None)
    return list(groups.values())


def recognize_kind(records: Sequence[bytes]) -> RecordKind:
    """Return the kind of records, of which none is empty."""
    return _recognize(records)[0]


# A kind that fits all records, and the fields of each.
_Recognized: TypeAlias = tuple[RecordKind, Sequence["Parts | None"]]


def _recognize(records: Sequence[bytes]) -> _Recognized:
    if not records:
        return BYTES, []
    examples = _as_examples(records) or _as_example_lists(records)
    if examples is not None:
        return examples
    for kind in KNOWN_KINDS:
        if (parts := _read_all(kind, records)) is not None:
            return kind, parts
    if all(sniff(record) == TEXT for record in records):
        return PLAIN_TEXT, [None] * len(records)
    # A few bytes are often a valid message by chance.
    is_long = sum(map(len, records)) >= _MIN_MESSAGE_BYTES
    parts = _read_all(UNKNOWN, records) if is_long else None
    return (BYTES, [None] * len(records)) if parts is None else (UNKNOWN, parts)


def _read_all(kind: RecordKind, records: Sequence[bytes]) -> list[Parts] | None:
    """Return the fields of records; None unless all are of this kind."""
    found = []
    for record in records:
        parts = kind.read(record)
        if parts is None:
            return None
        found.append(parts)
    return found


def natural_key(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts ``c2`` before ``c10``."""
    parts = re.split(r"([0-9]+)", name)
    # Digits are compared by their count first: Python limits the length of numbers in text.
    return [
        (len(part.lstrip("0")), part.lstrip("0")) if at % 2 else (0, part)
        for at, part in enumerate(parts)
    ]


# ---- Examples ----

# Names that are not UTF-8 are kept: their bytes that cannot be decoded become surrogates.


def _read_example(record: bytes) -> Parts | None:
    message = parse_message("Example", record)
    return None if message is None else {"features": _sorted(_features_of(message.features))}


def _read_sequence(record: bytes) -> Parts | None:
    message = parse_message("SequenceExample", record)
    if message is None:
        return None
    lists = {
        name_of(entry.key): _joined(map(_feature_of, entry.value.feature), "steps")
        for entry in message.feature_lists.feature_list
    }
    return {"context": _sorted(_features_of(message.context)), "feature_lists": _sorted(lists)}


def _read_example_list(record: bytes) -> Parts | None:
    message = parse_message("ExampleList", record)
    if message is None:
        return None
    examples = [_features_of(example.features) for example in message.examples]
    names = {name for example in examples for name in example}
    lists = {name: _joined((each.get(name) for each in examples), "examples") for name in names}
    return {"context": _sorted(_features_of(message.context.features)), "examples": _sorted(lists)}


def _features_of(features: Any) -> dict[str, ShownField]:
    return {name_of(entry.key): _feature_of(entry.value) for entry in features.feature}


def _feature_of(feature: Any) -> ShownField:
    kind = feature.WhichOneof("kind")
    return ShownField(kind or "none", list(getattr(feature, kind).value) if kind else [])


def _joined(items: Iterable[ShownField | None], noun: str) -> ShownField:
    items = list(items)
    kinds = {item.kind for item in items if item is not None}
    kind = "/".join(sorted(kinds - {"none"} or kinds)) or "none"
    return ShownField(kind, [None if item is None else item.values for item in items], noun)


def _sorted(features: Mapping[str, ShownField]) -> dict[str, ShownField]:
    return {name: features[name] for name in sorted(features, key=natural_key)}


def _as_examples(records: Sequence[bytes]) -> _Recognized | None:
    """Recognize Examples and SequenceExamples, if a feature has a list."""
    found = _read_all(SEQUENCE, records)
    if found is None or not any(map(_have_values, found)):
        return None
    if any(parts["feature_lists"] for parts in found):
        return SEQUENCE, found
    return EXAMPLE, [{"features": parts["context"]} for parts in found]


def _as_example_lists(records: Sequence[bytes]) -> _Recognized | None:
    """Recognize lists of examples; some of these also read as a SequenceExample.

    But then no feature has a list.
    """
    found = _read_all(EXAMPLE_LIST, records)
    if found is None or not any(_have_values({"examples": parts["examples"]}) for parts in found):
        return None
    if any(_have_values(_read_sequence(record) or {}) for record in records):
        return None
    return EXAMPLE_LIST, found


def _have_values(parts: Parts) -> bool:
    """Return whether a feature of a record has a list, also one without values."""
    return any(field.kind != "none" for part in parts.values() for field in part.values())


# ---- text and bytes ----


def _no_fields(_: bytes) -> Parts | None:
    return None


EXAMPLE = RecordKind("tf.train.Example", _read_example)
SEQUENCE = RecordKind("tf.train.SequenceExample", _read_sequence)
EXAMPLE_LIST = RecordKind("ExampleListWithContext (ELWC)", _read_example_list)
UNKNOWN = RecordKind("protobuf message of unknown type", read_unknown)
PLAIN_TEXT = RecordKind("plain text", _no_fields)
BYTES = RecordKind("bytes of unknown meaning", _no_fields)
