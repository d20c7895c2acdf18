"""Protobuf messages without generated code: of types that are declared in short, or of none."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
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


def add_messages(
    pool: descriptor_pool.DescriptorPool,
    path: str,
    package: str,
    messages: Mapping[str, Sequence[str]],
    imports: Sequence[str] = (),
) -> None:
    """Add the messages of a file to a descriptor pool.

    Args:
        pool: The pool.
        path: Name of the file.
        package: Package of the messages, and of those that their fields name.
        messages: Fields of each message by its name. A field has a rule, a type, a name and a
            number, as in a .proto file. "oneof" is a member of the oneof "kind", and the keys of a
            "map" are strings.
        imports: Names of the files of other messages.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name=path, package=package, dependency=imports, syntax="proto3"
    )
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add_field(message, package, field)
    pool.AddSerializedFile(file.SerializeToString())


def _add_field(message: descriptor_pb2.DescriptorProto, package: str, text: str) -> None:
    rule, kind, name, number = text.split()
    field = message.field.add(name=name, number=int(number))
    single = rule in {"optional", "oneof"}
    field.label = _Field.LABEL_OPTIONAL if single else _Field.LABEL_REPEATED
    if rule == "map":
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(entry, package, "optional string key 1")
        _add_field(entry, package, f"optional {kind} value 2")
        kind = f"{message.name}.{entry.name}"
    if kind.islower():
        field.type = _Field.Type.Value(f"TYPE_{kind.upper()}")
    else:  # a message
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{package}.{kind}"
    if rule == "packed":
        field.options.packed = True
    if rule == "oneof":
        if not message.oneof_decl:
            message.oneof_decl.add(name="kind")
        field.oneof_index = 0


@functools.cache
def _messages() -> descriptor_pool.DescriptorPool:
    """Return the messages of ``messages.json``, in the form of :func:`add_messages`.

    The entries of the maps of Examples are messages of their own, as keys of a map must be UTF-8.
    """
    messages = json.loads((files(__package__) / "messages.json").read_text("utf-8"))
    pool = descriptor_pool.DescriptorPool()
    add_messages(pool, "inspected.proto", _PACKAGE, messages)
    return pool


def parse_message(name: str, data: bytes) -> Any:
    """Return the message of ``messages.json`` that bytes are; None if they are not valid."""
    descriptor = _messages().FindMessageTypeByName(f"{_PACKAGE}.{name}")
    return _parse(message_factory.GetMessageClass(descriptor)(), data)


def _parse(message: Any, data: bytes) -> Any:
    try:
        message.ParseFromString(data)
    except (DecodeError, UnicodeDecodeError):  # the latter only of protobuf in pure Python
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
