"""Protobuf messages without generated code: of types that are declared in short, or of none."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    empty_pb2,
    message_factory,
    unknown_fields,
)
from google.protobuf.message import DecodeError

GROUP = 3  # the wire type
_PACKAGE = "torchrec_io.inspected"
_Field = descriptor_pb2.FieldDescriptorProto


def message_class(name: str) -> Any:
    """Return the class of a message of ``messages.json``."""
    return message_factory.GetMessageClass(_messages().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


@functools.cache
def _messages() -> descriptor_pool.DescriptorPool:
    """Return the messages of ``messages.json``.

    The file has the fields of each message: a type, a name and a number each, as in a .proto file.
    A type that ends with "*" is of a repeated field, one that ends with "|" of a member of the
    oneof "kind", and one that ends with "{}" of the values of a map whose keys are strings. The
    entries of the maps of Examples are messages of their own, as keys of a map must be UTF-8.
    """
    messages = json.loads((files(__package__) / "messages.json").read_text("utf-8"))
    file = descriptor_pb2.FileDescriptorProto(name=_PACKAGE, package=_PACKAGE, syntax="proto3")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for text in fields:
            _add_field(message, text, messages)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def parse_message(name: str, data: bytes) -> Any:
    """Return the message of ``messages.json`` that bytes are; None if they are not valid."""
    return _parse(message_class(name)(), data)


def _parse(message: Any, data: bytes) -> Any:
    try:
        message.ParseFromString(data)
    except DecodeError:
        return None
    return message


def parse_fields(data: bytes) -> list[Any] | None:
    """Return the fields of a message of unknown type; None if the bytes are not a message.

    Each has a ``field_number``, a ``wire_type`` and ``data``.
    """
    message = _parse(empty_pb2.Empty(), data)
    if message is None:
        return None
    fields: Any = unknown_fields.UnknownFieldSet(message)  # its stub cannot be iterated
    return list(fields)


def _add_field(
    message: descriptor_pb2.DescriptorProto, text: str, messages: Mapping[str, Any]
) -> None:
    kind, name, number = text.split()
    field = message.field.add(name=name, number=int(number))
    field.label = _Field.LABEL_REPEATED if kind[-1] in "*}" else _Field.LABEL_OPTIONAL
    if kind.endswith("{}"):
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(entry, "string key 1", messages)
        _add_field(entry, f"{kind[:-2]} value 2", messages)
        kind = f"{message.name}.{entry.name}"
    if kind.endswith("|"):
        if not message.oneof_decl:
            message.oneof_decl.add(name="kind")
        field.oneof_index = 0
    kind = kind.rstrip("*|")
    if kind.partition(".")[0] in messages:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"
    else:
        field.type = _Field.Type.Value(f"TYPE_{kind.upper()}")
