"""Examples and SequenceExamples of Python values, serialized by protobuf."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.support.messages import Example, Feature, SequenceExample

Values = Sequence[Any]


def example_of(**features: Values) -> bytes:
    """Serialize an Example. A feature without values has no kind."""
    example = Example()
    for name, values in features.items():
        fill(example.features.feature[name], values)
    data: bytes = example.SerializeToString()
    return data


def sequence_example_of(context: Mapping[str, Any], lists: Mapping[str, Iterable[Values]]) -> bytes:
    """Serialize a SequenceExample. ``lists`` has the values of each step."""
    message = SequenceExample()
    for name, values in context.items():
        fill(message.context.feature[name], values)
    for name, steps in lists.items():
        feature_list = message.feature_lists.feature_list[name]
        for step in steps:
            fill(feature_list.feature.add(), step)
    data: bytes = message.SerializeToString()
    return data


def fill(feature: Feature, values: Values) -> None:
    """Fill a Feature with values, or with a tuple of a kind and values.

    Without a kind, the first value determines it. The kind "none" is a Feature without a list.
    """
    if not values:
        return
    first = values[0]
    if isinstance(first, str):
        kind, values = values
    else:
        kind = (
            "bytes"
            if isinstance(first, bytes)
            else "float"
            if isinstance(first, float)
            else "int64"
        )
    if kind != "none":
        stored = getattr(feature, f"{kind}_list")
        stored.SetInParent()  # also without values
        stored.value.extend(values)
