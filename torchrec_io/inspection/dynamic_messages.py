"""Protobuf messages without generated code: of types that are declared in short, or of none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    empty_pb2,
    message_factory,
    unknown_fields,
)
from google.protobuf.message import DecodeError

GROUP = 3  # the wire type
Messages: TypeAlias = Mapping[str, Sequence[str]]
_Field = descriptor_pb2.FieldDescriptorProto


def message_classes(package: str, messages: Messages) -> dict[str, Any]:
    """Return the class of each message, by its name.

    Args:
        package: Name of a package for the messages.
        messages: Fields of each message: a type, a name and a number each, as in a .proto file. A
            type that ends with "*" is of a repeated field, one that ends with "|" of a member of
            the oneof "kind", and one that ends with "{}" of the values of a map whose keys are
            strings.
    """
    file = descriptor_pb2.FileDescriptorProto(name=package, package=package, syntax="proto3")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for text in fields:
            _add_field(message, text, package, messages)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }


def parse_message(message_class: Any, data: bytes) -> Any:
    """Return the message of a class that bytes are; None if they are not valid."""
    message = message_class()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return None
    return message


def parse_fields(data: bytes) -> list[Any] | None:
    """Return the fields of a message of unknown type; None if the bytes are not a message.

    Each has a ``field_number``, a ``wire_type`` and ``data``.
    """
    message = parse_message(empty_pb2.Empty, data)
    if message is None:
        return None
    fields: Any = unknown_fields.UnknownFieldSet(message)  # its stub cannot be iterated
    return list(fields)


def _add_field(
    message: descriptor_pb2.DescriptorProto,
    text: str,
    package: str,
    messages: Messages,
) -> None:
    kind, name, number = text.split()
    field = message.field.add(name=name, number=int(number))
    field.label = _Field.LABEL_REPEATED if kind[-1] in "*}" else _Field.LABEL_OPTIONAL
    if kind.endswith("{}"):
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(entry, "string key 1", package, messages)
        _add_field(entry, f"{kind[:-2]} value 2", package, messages)
        kind = f"{message.name}.{entry.name}"
    if kind.endswith("|"):
        if not message.oneof_decl:
            message.oneof_decl.add(name="kind")
        field.oneof_index = 0
    kind = kind.rstrip("*|")
    if kind.partition(".")[0] in messages:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{package}.{kind}"
    else:
        field.type = _Field.Type.Value(f"TYPE_{kind.upper()}")
