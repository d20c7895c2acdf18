"""TensorFlow's messages as protobuf itself reads and writes them: what other code is compared with.

They live in a pool and a package of their own, so that TensorFlow can be imported beside them.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "torchrec_io_test"
_Field = descriptor_pb2.FieldDescriptorProto


def _add_field(
    message: descriptor_pb2.DescriptorProto,
    name: str,
    number: int,
    kind: int | str,
    *,
    repeated: bool = False,
    packed: bool = False,
) -> _Field:
    """Adds a field; ``kind`` is a scalar type or the name of a message."""
    field = message.field.add(name=name, number=number)
    field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    if isinstance(kind, str):
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"
    else:
        field.type = kind  # type: ignore[assignment]  # the stubs want an enum's own type
    if packed:
        field.options.packed = True
    return field


def _add_map(message: descriptor_pb2.DescriptorProto, name: str, value: str) -> None:
    """Adds field 1, a map from text to messages."""
    entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    _add_field(entry, "key", 1, _Field.TYPE_STRING)
    _add_field(entry, "value", 2, value)
    _add_field(message, name, 1, f"{message.name}.{entry.name}", repeated=True)


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="torchrec_io_test/example.proto", package=_PACKAGE, syntax="proto3"
    )
    bytes_list = file.message_type.add(name="BytesList")
    _add_field(bytes_list, "value", 1, _Field.TYPE_BYTES, repeated=True)
    float_list = file.message_type.add(name="FloatList")
    _add_field(float_list, "value", 1, _Field.TYPE_FLOAT, repeated=True, packed=True)
    int64_list = file.message_type.add(name="Int64List")
    _add_field(int64_list, "value", 1, _Field.TYPE_INT64, repeated=True, packed=True)

    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, kind in enumerate(("BytesList", "FloatList", "Int64List"), 1):
        field = _add_field(feature, kind[:-4].lower() + "_list", number, kind)
        field.oneof_index = 0

    _add_map(file.message_type.add(name="Features"), "feature", "Feature")
    example = file.message_type.add(name="Example")
    _add_field(example, "features", 1, "Features")

    feature_list = file.message_type.add(name="FeatureList")
    _add_field(feature_list, "feature", 1, "Feature", repeated=True)
    _add_map(file.message_type.add(name="FeatureLists"), "feature_list", "FeatureList")
    sequence = file.message_type.add(name="SequenceExample")
    _add_field(sequence, "context", 1, "Features")
    _add_field(sequence, "feature_lists", 2, "FeatureLists")
    return file


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_file())


def _message_class(name: str) -> Any:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


Feature: Any = _message_class("Feature")
Features: Any = _message_class("Features")
FeatureList: Any = _message_class("FeatureList")
Example: Any = _message_class("Example")
SequenceExample: Any = _message_class("SequenceExample")
