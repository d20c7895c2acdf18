"""Serialization of lists of Examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._parsing.wrapping import field_prefix
from .._writing.encode import Kinds, encode_example, encode_examples
from .schema import Schema

# Tags of the fields of the message: `repeated Example examples` and `Example context`.
_EXAMPLES, _CONTEXT = b"\x0a", b"\x12"


def encode(
    context: Mapping[str, Any] | None,
    examples: Iterable[Mapping[str, Any]],
    kinds: Kinds | Schema | None = None,
) -> bytes:
    """Serialize one ``ExampleListWithContext``.

    Args:
        context: Value of each feature of the context, as for :func:`encode_example`. None for a
            list without a context.
        examples: Value of each feature of each example, as for :func:`encode_example`.
        kinds: Kinds of the features of both parts, as for :func:`encode_example`, or their schema.

    Raises:
        TypeError: If a value has an unsupported type; see :func:`encode_example`.
        ValueError: If a value cannot be stored; see :func:`encode_example`.
        SchemaError: If ``kinds`` is not valid; see :func:`encode_example`.
    """
    context_kinds = kinds.context_schema if isinstance(kinds, Schema) else kinds
    example_kinds = kinds.example_schema if isinstance(kinds, Schema) else kinds
    parts = [(_EXAMPLES, example) for example in encode_examples(examples, example_kinds)]
    if context is not None:
        parts.append((_CONTEXT, encode_example(context, context_kinds)))
    return b"".join(field_prefix(tag, len(part)) + part for tag, part in parts)
