"""The messages ``tf.train.Example`` and ``tf.train.SequenceExample``, and their parts.

    example = Example(features=Features(feature={"x": Feature(int64_list=Int64List(value=[1]))}))
    example.SerializeToString()

These are ordinary protobuf classes that read and write the same bytes as TensorFlow's classes.
Reading data does not need them. They have their own descriptor pool and package, so TensorFlow can
be imported in the same process, before or after. For protobuf, the two kinds are different types:
convert between them by serializing. The types for type checkers are in ``messages.pyi``.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "torchrec_io"
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = ("bytes", "float", "int64", "string")

# The files of proto/, which document the fields: each message with its fields, numbered from 1.
# "oneof" is a member of the oneof "kind", and the keys of a "map" are strings.
_FILES = {
    "feature.proto": {
        "BytesList": {"value": "repeated bytes"},
        "FloatList": {"value": "packed float"},
        "Int64List": {"value": "packed int64"},
        "Feature": {
            "bytes_list": "oneof BytesList",
            "float_list": "oneof FloatList",
            "int64_list": "oneof Int64List",
        },
        "Features": {"feature": "map Feature"},
        "FeatureList": {"feature": "repeated Feature"},
        "FeatureLists": {"feature_list": "map FeatureList"},
    },
    "example.proto": {
        "Example": {"features": "optional Features"},
        "SequenceExample": {
            "context": "optional Features",
            "feature_lists": "optional FeatureLists",
        },
    },
}


def _add_field(message: descriptor_pb2.DescriptorProto, name: str, rule: str, kind: str) -> None:
    """Add the next field; ``kind`` is a scalar type or the name of a message."""
    field = message.field.add(name=name, number=len(message.field) + 1)
    single = rule in {"optional", "oneof"}
    field.label = _Field.LABEL_OPTIONAL if single else _Field.LABEL_REPEATED
    if rule == "map":
        kind = _add_map_entry(message, name, kind)
    if kind in _SCALARS:
        field.type = _Field.Type.Value(f"TYPE_{kind.upper()}")
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"
    if rule == "packed":
        field.options.packed = True
    if rule == "oneof":
        if not message.oneof_decl:
            message.oneof_decl.add(name="kind")
        field.oneof_index = 0


def _add_map_entry(message: descriptor_pb2.DescriptorProto, field: str, value: str) -> str:
    """Add the message for the entries of a map, and return its name."""
    entry = message.nested_type.add(name=f"{field.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    _add_field(entry, "key", "optional", "string")
    _add_field(entry, "value", "optional", value)
    return f"{message.name}.{entry.name}"


def _make_pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    known: list[str] = []
    for path, messages in _FILES.items():
        file = descriptor_pb2.FileDescriptorProto(
            name=path, package=_PACKAGE, dependency=known, syntax="proto3"
        )
        for name, fields in messages.items():
            message = file.message_type.add(name=name)
            for field, text in fields.items():
                _add_field(message, field, *text.split())
        pool.AddSerializedFile(file.SerializeToString())
        known.append(path)
    return pool


_POOL = _make_pool()


def _message_class(name: str, doc: str) -> Any:
    """Return the class of a message, as a class of this module, where pickle finds it."""
    made = message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
    made.__module__ = __name__
    made.__doc__ = doc
    return made


BytesList = _message_class("BytesList", "A list of bytes values: ``value``.")
FloatList = _message_class("FloatList", "A list of 32-bit floats: ``value``.")
Int64List = _message_class("Int64List", "A list of 64-bit integers: ``value``.")
Feature = _message_class(
    "Feature", "At most one of ``bytes_list``, ``float_list`` and ``int64_list``."
)
Features = _message_class("Features", "Features by name: the map ``feature``.")
FeatureList = _message_class("FeatureList", "A Feature for each step of a sequence: ``feature``.")
FeatureLists = _message_class("FeatureLists", "FeatureLists by name: the map ``feature_list``.")
Example = _message_class(
    "Example", "A flat record, ``tf.train.Example`` in TensorFlow: ``features``."
)
SequenceExample = _message_class(
    "SequenceExample",
    "A record with steps, ``tf.train.SequenceExample`` in TensorFlow: ``context`` and "
    "``feature_lists``.",
)
