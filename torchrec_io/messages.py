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

from google.protobuf import descriptor_pool, message_factory

from .inspection.dynamic_messages import add_messages

_PACKAGE = "torchrec_io"

# The files of proto/, which document the fields. Their form is that of add_messages.
_FILES = {
    "feature.proto": {
        "BytesList": ["repeated bytes value 1"],
        "FloatList": ["packed float value 1"],
        "Int64List": ["packed int64 value 1"],
        "Feature": [
            "oneof BytesList bytes_list 1",
            "oneof FloatList float_list 2",
            "oneof Int64List int64_list 3",
        ],
        "Features": ["map Feature feature 1"],
        "FeatureList": ["repeated Feature feature 1"],
        "FeatureLists": ["map FeatureList feature_list 1"],
    },
    "example.proto": {
        "Example": ["optional Features features 1"],
        "SequenceExample": [
            "optional Features context 1",
            "optional FeatureLists feature_lists 2",
        ],
    },
}


def _make_pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    known: list[str] = []
    for path, messages in _FILES.items():
        add_messages(pool, path, _PACKAGE, messages, known)
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
