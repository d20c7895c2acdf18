"""Comparison of both message families: ``tf_messages.py GOLDEN tensorflow|torchrec_io``.

The tests run this script with the Python of an environment that has TensorFlow, and with
``torchrec_io`` on its path. The second argument is the package that is imported first.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # must be set before TensorFlow is imported

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

MESSAGES = (
    "BytesList", "FloatList", "Int64List", "Feature", "Features", "FeatureList", "FeatureLists",
    "Example", "SequenceExample",
)  # fmt: skip


def described(made: Any) -> Any:
    """Return a message's descriptor without the package and options for JavaScript."""
    proto = descriptor_pb2.DescriptorProto()
    made.DESCRIPTOR.CopyToProto(proto)
    for message in (proto, *proto.nested_type):
        for field in message.field:
            field.type_name = field.type_name.removeprefix(f".{made.DESCRIPTOR.file.package}")
            field.options.ClearField("jstype")
            field.ClearField("json_name")
            if not field.options.ListFields():
                field.ClearField("options")
    return proto


def read(made: Any, record: bytes) -> Any:
    """Parse a message. Return None for invalid bytes."""
    try:
        return made.FromString(record)
    except DecodeError:
        return None


def compare(ours: Any, theirs: Any, record: bytes) -> bool:
    """Check that both families treat a record alike. Return whether it is valid."""
    first, second = read(ours, record), read(theirs, record)
    assert (first is None) == (second is None), record
    if first is None:
        return False
    written = first.SerializeToString(deterministic=True)
    assert written == second.SerializeToString(deterministic=True), record
    assert str(first) == str(second), record
    assert str(theirs.FromString(first.SerializeToString())) == str(second), record
    assert str(ours.FromString(second.SerializeToString())) == str(first), record
    return True


def make_sequence(family: Any) -> Any:
    """Return a SequenceExample of one family of classes."""
    feature = family.Feature(bytes_list=family.BytesList(value=[b"\xff", b""]))
    step = family.Feature(float_list=family.FloatList(value=[0.5, -0.0, float("inf")]))
    steps = family.FeatureList(feature=[step, family.Feature(), feature])
    return family.SequenceExample(
        context=family.Features(feature={"a": feature, "": family.Feature()}),
        feature_lists=family.FeatureLists(feature_list={"b": steps, "c": family.FeatureList()}),
    )


def main() -> None:
    """Import both packages in the requested order, and compare them."""
    golden, first = Path(sys.argv[1]), sys.argv[2]
    assert first in {"tensorflow", "torchrec_io"}
    if first == "torchrec_io":  # get a class: classes are created on first use
        assert importlib.import_module("torchrec_io").Example.__name__ == "Example"
        assert not {"tensorflow", "numpy", "torch", "torchrec_io._core"} & {*sys.modules}
    tf = importlib.import_module("tensorflow")
    tio = importlib.import_module("torchrec_io")
    assert tio.Example is tio.messages.Example
    assert tio.Example is not tf.train.Example
    assert not {"torch", "torchrec_io._core"} & {*sys.modules}

    for name in MESSAGES:
        ours, theirs = described(getattr(tio.messages, name)), described(getattr(tf.train, name))
        assert ours == theirs, (ours, theirs)

    records = [
        record
        for path in sorted(golden.glob("*.tfrecord"))
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    ]
    records += [make_sequence(family).SerializeToString() for family in (tf.train, tio.messages)]
    read = [
        compare(getattr(tio, name), getattr(tf.train, name), record)
        for name in ("Example", "SequenceExample")
        for record in records
    ]
    assert str(make_sequence(tio.messages)) == str(make_sequence(tf.train))
    print(f"{sum(read)} read, {len(read) - sum(read)} refused")


if __name__ == "__main__":
    main()
