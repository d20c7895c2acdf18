"""The features of a record whose schema is not known, to show them.

This is for one record at a time; :mod:`torchrec_io._parsing.parser` is for training. Protobuf reads
the messages, but names that are not UTF-8 are kept: their bytes that cannot be decoded become
surrogates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from .._parsing.stored_names import name_of
from .dynamic_messages import parse_message

Kind: TypeAlias = Literal["bytes", "float", "int64", "none"]


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


def inspect_example(record: bytes) -> dict[str, ShownField] | None:
    """Return the features of a serialized ``tf.train.Example``, or None if this is not one.

    An empty record is an Example without features, and so are some other byte strings that happen
    to be valid protobuf. For a ``tf.train.SequenceExample`` the result is its context.
    """
    example = parse_message("Example", record)
    return None if example is None else _features_of(example.features)


def inspect_sequence_example(
    record: bytes,
) -> tuple[dict[str, ShownField], dict[str, list[ShownField]]] | None:
    """Return the context and the feature lists of a serialized ``tf.train.SequenceExample``.

    Returns:
        The features, or None if this is not a SequenceExample.
    """
    example = parse_message("SequenceExample", record)
    if example is None:
        return None
    lists = {
        name_of(entry.key): [_feature_of(step) for step in entry.value.feature]
        for entry in example.feature_lists.feature_list
    }
    return _features_of(example.context), lists


def inspect_example_list(
    record: bytes,
) -> tuple[dict[str, ShownField], list[dict[str, ShownField]]] | None:
    """Return the context and the examples of a serialized ``ExampleListWithContext``.

    Returns:
        The features, or None if this is not such a message.
    """
    found = parse_message("ExampleList", record)
    if found is None:
        return None
    examples = [_features_of(example.features) for example in found.examples]
    return _features_of(found.context.features), examples


def _features_of(features: Any) -> dict[str, ShownField]:
    return {name_of(entry.key): _feature_of(entry.value) for entry in features.feature}


def _feature_of(feature: Any) -> ShownField:
    kind = feature.WhichOneof("kind")
    return ShownField(kind or "none", list(getattr(feature, kind).value) if kind else [])
