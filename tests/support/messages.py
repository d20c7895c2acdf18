"""TensorFlow's messages as protobuf reads and writes them, the reference for other code.

These are the package's classes, which ``tests/test_messages.py`` compares with those of protoc.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from torchrec_io.messages import Example, Feature, FeatureList, Features, SequenceExample

__all__ = ["Example", "Feature", "FeatureList", "Features", "SequenceExample", "make_messages"]

_Field = descriptor_pb2.FieldDescriptorProto


def make_messages(package: str, messages: dict[str, dict[str, str]], pool: Any = None) -> Any:
    """Return classes of messages that no library has, by name.

    Args:
        package: Name of the package of the messages.
        messages: Fields of each message: ``"name number": "kind"``. A kind is a scalar type, the
            name of a message of the same package, or a full name with a dot; ``"repeated "`` may
            precede it.
        pool: Pool with the other messages that are named.
    """
    file = descriptor_pb2.FileDescriptorProto(name=package, package=package, syntax="proto3")
    for message, fields in messages.items():
        made = file.message_type.add(name=message)
        for field, described in fields.items():
            name, number = field.split()
            *repeated, kind = described.split()
            label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            added = made.field.add(name=name, number=int(number), label=label)
            if kind in messages or "." in kind:
                added.type = _Field.TYPE_MESSAGE
                added.type_name = f".{kind}" if "." in kind else f".{package}.{kind}"
            else:
                added.type = _Field.Type.Value(f"TYPE_{kind.upper()}")
    if pool is None:
        pool = descriptor_pool.DescriptorPool()
    else:
        file.dependency.append(Example.DESCRIPTOR.file.name)
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }
