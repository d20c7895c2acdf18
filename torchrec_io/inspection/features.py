"""The features of a record whose schema is not known, to show them.

This is for one record at a time; :mod:`torchrec_io._parsing.parser` is for training. Protobuf reads
the messages, but names that are not UTF-8 are kept: their bytes that cannot be decoded become
surrogates.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from .._schema.stored_names import name_of

Kind: TypeAlias = Literal["bytes", "float", "int64", "none"]

# The fields of each message, as :func:`message_classes` takes them. The entries of maps are
# messages of their own, because the keys of a map must be UTF-8.
_MESSAGES = {
    "BytesList": ["bytes* value 1"],
    "FloatList": ["float* value 1"],
    "Int64List": ["int64* value 1"],
    "Feature": ["BytesList| bytes 1", "FloatList| float 2", "Int64List| int64 3"],
    "FeatureEntry": ["bytes key 1", "Feature value 2"],
    "Features": ["FeatureEntry* feature 1"],
    "FeatureList": ["Feature* feature 1"],
    "FeatureListEntry": ["bytes key 1", "FeatureList value 2"],
    "FeatureLists": ["FeatureListEntry* feature_list 1"],
    "Example": ["Features features 1"],
    "SequenceExample": ["Features context 1", "FeatureLists feature_lists 2"],
    "ExampleList": ["Example* examples 1", "Example context 2"],
}


class InspectedFeature(NamedTuple):
    """A feature of a record.

    Attributes:
        kind: Kind of its list; "none" if it has no list.
        values: Values of the list.
    """

    kind: Kind
    values: list[bytes] | list[float] | list[int]


class ShownField(NamedTuple):
    """A feature or another field of a record, to show it.

    Attributes:
        kind: Type of the values, such as ``"int64"``; "none" for a feature without a list.
        values: The values. For a feature list: the values of each step. For a list of examples:
            the values in each example, None where an example does not have the feature.
        noun: Plural noun for the items of ``values``: "values", "steps" or "examples".
    """

    kind: str
    values: Sequence[Any]
    noun: str = "values"


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


def inspect_example(record: bytes) -> dict[str, InspectedFeature] | None:
    """Return the features of a serialized ``tf.train.Example``, or None if this is not one.

    An empty record is an Example without features, and so are some other byte strings that happen
    to be valid protobuf. For a ``tf.train.SequenceExample`` the result is its context.
    """
    example = _parse("Example", record)
    return None if example is None else _features_of(example.features)


def inspect_sequence_example(
    record: bytes,
) -> tuple[dict[str, InspectedFeature], dict[str, list[InspectedFeature]]] | None:
    """Return the context and the feature lists of a serialized ``tf.train.SequenceExample``.

    Returns:
        The features, or None if this is not a SequenceExample.
    """
    example = _parse("SequenceExample", record)
    if example is None:
        return None
    lists = {
        name_of(entry.key): [_feature_of(step) for step in entry.value.feature]
        for entry in example.feature_lists.feature_list
    }
    return _features_of(example.context), lists


def inspect_example_list(
    record: bytes,
) -> tuple[dict[str, InspectedFeature], list[dict[str, InspectedFeature]]] | None:
    """Return the context and the examples of a serialized ``ExampleListWithContext``.

    Returns:
        The features, or None if this is not such a message.
    """
    found = _parse("ExampleList", record)
    if found is None:
        return None
    examples = [_features_of(example.features) for example in found.examples]
    return _features_of(found.context.features), examples


def _features_of(features: Any) -> dict[str, InspectedFeature]:
    return {name_of(entry.key): _feature_of(entry.value) for entry in features.feature}


def _feature_of(feature: Any) -> InspectedFeature:
    kind = feature.WhichOneof("kind")
    return InspectedFeature(kind or "none", list(getattr(feature, kind).value) if kind else [])


def _parse(name: str, record: bytes) -> Any:
    """Return the message of a record; None if its bytes are not valid."""
    from .dynamic_messages import parse_message  # noqa: PLC0415  # only to inspect records

    return parse_message(_classes()[name], record)


@functools.cache
def _classes() -> dict[str, Any]:
    from .dynamic_messages import message_classes  # noqa: PLC0415  # only to inspect records

    return message_classes("torchrec_io.inspected", _MESSAGES)
