"""The message ``ExampleListWithContext``, as a protobuf class."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, message_factory

from tests.support.messages import Example

_Field = descriptor_pb2.FieldDescriptorProto


def _make_message() -> Any:
    example = Example.DESCRIPTOR
    file = descriptor_pb2.FileDescriptorProto(
        name="tests/input.proto",
        package="torchrec_io.tests",
        syntax="proto3",
        dependency=[example.file.name],
    )
    message = file.message_type.add(name="ExampleListWithContext")
    # As in tensorflow_serving/apis/input.proto.
    for number, (name, label) in enumerate(
        [("examples", _Field.LABEL_REPEATED), ("context", _Field.LABEL_OPTIONAL)], start=1
    ):
        message.field.add(
            name=name,
            number=number,
            label=label,
            type=_Field.TYPE_MESSAGE,
            type_name=f".{example.full_name}",
        )
    pool: Any = example.file.pool
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"{file.package}.{message.name}")
    )


ExampleListWithContext = _make_message()
