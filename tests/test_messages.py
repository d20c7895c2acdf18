"""Tests of the protobuf messages: their descriptors, pickling and types."""

from __future__ import annotations

import ast
import copy
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import torchrec_io
from tests.conftest import ROOT, skip_or_fail
from tests.support import wire
from tests.support.tfrecord import write_tfrecord
from torchrec_io import messages
from torchrec_io.messages import (
    BytesList,
    Example,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
    SequenceExample,
)

CLASSES: list[Any] = [
    BytesList, FloatList, Int64List, Feature, Features, FeatureList, FeatureLists,
    Example, SequenceExample,
]  # fmt: skip


# ---- the schema ----


def without_json_names(proto: descriptor_pb2.FileDescriptorProto) -> Any:
    """The descriptor without the names of its fields in JSON, which follow from the fields' own."""
    todo = list(proto.message_type)
    while todo:
        message = todo.pop()
        todo += message.nested_type
        for field in message.field:
            field.ClearField("json_name")
    return proto


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What protoc makes of the files in proto/."""
    protoc = shutil.which("protoc")
    if protoc is None:
        skip_or_fail("there is no protoc (Debian: protobuf-compiler)")
    out = tmp_path_factory.mktemp("protoc") / "set"
    files = sorted(path.name for path in (ROOT / "proto").glob("*.proto"))
    command = [protoc, f"--proto_path={ROOT / 'proto'}", f"--descriptor_set_out={out}", *files]
    subprocess.run(command, check=True, timeout=60)
    made = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    return [without_json_names(file) for file in made.file]


def test_the_descriptors_are_those_of_protoc(compiled: list[Any]) -> None:
    ours = {}
    for file in {made.DESCRIPTOR.file.name: made.DESCRIPTOR.file for made in CLASSES}.values():
        proto = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(proto)
        ours[file.name] = without_json_names(proto)
    assert ours == {file.name: file for file in compiled}


def test_each_message_of_the_schema_has_its_class() -> None:
    names = [
        name
        for file in (Feature.DESCRIPTOR.file, Example.DESCRIPTOR.file)
        for name in file.message_types_by_name
    ]
    assert sorted(names) == sorted(made.__name__ for made in CLASSES)
    for made in CLASSES:
        assert made.__module__ == "torchrec_io.messages"
        assert getattr(messages, made.__qualname__) is made
        assert made.__doc__


def test_messages_inside_messages_are_of_these_classes() -> None:
    message = SequenceExample()
    message.context.feature["x"].int64_list.value.append(1)
    message.feature_lists.feature_list["y"].feature.add().float_list.value.append(1)
    steps = message.feature_lists.feature_list["y"]
    assert type(message.context) is Features
    assert type(message.context.feature["x"]) is Feature
    assert type(message.context.feature["x"].int64_list) is Int64List
    assert type(message.feature_lists) is FeatureLists
    assert type(steps) is FeatureList
    assert type(steps.feature[0].float_list) is FloatList


def test_the_default_pool_knows_nothing_of_them() -> None:
    for made in CLASSES:
        with pytest.raises(KeyError):
            descriptor_pool.Default().FindMessageTypeByName(made.DESCRIPTOR.full_name)


# ---- bytes ----


def test_the_bytes_are_those_of_the_wire_format() -> None:
    lists = {
        "b": Feature(bytes_list=BytesList(value=[b"\xff\x00", b""])),
        "f": Feature(float_list=FloatList(value=[1.0])),
        "i": Feature(int64_list=Int64List(value=[1, 300, -1])),
    }
    content = [
        wire.delimited(1, wire.delimited(1, b"\xff\x00") + wire.delimited(1, b"")),
        wire.delimited(2, wire.delimited(1, b"\x00\x00\x80\x3f")),
        wire.delimited(3, wire.delimited(1, b"\x01\xac\x02" + b"\xff" * 9 + b"\x01")),
    ]
    record = wire.example(*map(wire.entry, lists, content))
    message = Example(features=Features(feature=lists))
    assert message.SerializeToString(deterministic=True) == record
    assert Example.FromString(record) == message


# ---- travel ----

features = st.one_of(
    st.builds(Feature),
    st.lists(st.binary(max_size=5), max_size=3).map(
        lambda values: Feature(bytes_list=BytesList(value=values))
    ),
    st.lists(st.floats(width=32), max_size=3).map(
        lambda values: Feature(float_list=FloatList(value=values))
    ),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3).map(
        lambda values: Feature(int64_list=Int64List(value=values))
    ),
)
named = st.dictionaries(st.text(max_size=3), features, max_size=3).map(
    lambda entries: Features(feature=entries)
)
steps = st.lists(features, max_size=3).map(lambda values: FeatureList(feature=values))
lists = st.dictionaries(st.text(max_size=3), steps, max_size=3).map(
    lambda entries: FeatureLists(feature_list=entries)
)
examples = st.builds(lambda features: Example(features=features), named)
sequences = st.builds(
    lambda context, lists: SequenceExample(context=context, feature_lists=lists), named, lists
)
anything = st.one_of(features, named, steps, lists, examples, sequences)


def as_bytes(message: Any) -> tuple[type, bytes]:
    """What tells messages apart, NaN included."""
    return type(message), message.SerializeToString(deterministic=True)


@given(message=anything)
def test_pickles_and_copies_are_equal_and_apart(message: Any) -> None:
    before = as_bytes(message)
    copies = [pickle.loads(pickle.dumps(message, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)]
    copies += [copy.copy(message), copy.deepcopy(message), type(message).FromString(before[1])]
    message.Clear()
    assert [as_bytes(other) for other in copies] == [before] * len(copies)


def test_a_loader_whose_workers_get_a_pickled_dataset(tmp_path: Path) -> None:
    sent = [
        Example(features=Features(feature={"x": Feature(int64_list=Int64List(value=[number]))}))
        for number in range(5)
    ]
    write_tfrecord(tmp_path / "x", [message.SerializeToString() for message in sent])
    dataset = torchrec_io.TFRecordDataset(tmp_path / "x", torchrec_io.Example.FromString)
    loader = DataLoader(
        dataset, batch_size=None, num_workers=1, multiprocessing_context="forkserver"
    )
    assert list(loader) == sent


# ---- laziness ----


def test_they_need_protobuf_alone() -> None:
    # In an interpreter of its own; the first access is by way of the module, then of the package.
    code = (
        "import sys, torchrec_io\n"
        "assert 'google.protobuf' not in sys.modules\n"
        "assert torchrec_io.messages.Example is torchrec_io.Example\n"
        "assert torchrec_io.SequenceExample().SerializeToString() == b''\n"
        "assert 'google.protobuf' in sys.modules\n"
        "print(*{'torch', 'numpy', 'torchrec_io._core', 'torchrec_io.errors'} & {*sys.modules})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "\n"


# ---- what type checkers are told ----

STUB = {
    node.name: node
    for node in ast.parse(Path(messages.__file__).with_suffix(".pyi").read_text("utf-8")).body
    if isinstance(node, ast.ClassDef)
}
SCALARS = {
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_INT64: "int",
    FieldDescriptor.TYPE_STRING: "str",
}


def type_of(field: Any) -> tuple[str, str]:
    """What a field gives and what its argument takes, as the stub has to say it."""
    inner = field.message_type
    name = inner.name if inner else SCALARS[field.type]
    if inner and inner.GetOptions().map_entry:
        key, value = (inner.fields_by_name[part] for part in ("key", "value"))
        pair = f"[{type_of(key)[0]}, {type_of(value)[0]}]"
        return f"MessageMap{pair}", f"Mapping{pair} | None"
    if not field.is_repeated:
        return name, f"_Given[{name}]"
    if inner:
        taken = f"Iterable[{name} | Mapping[str, Any]] | None"
        return f"RepeatedCompositeFieldContainer[{name}]", taken
    return f"RepeatedScalarFieldContainer[{name}]", f"Iterable[{name}] | None"


def test_the_stub_names_all_classes() -> None:
    assert sorted(STUB) == sorted(made.__name__ for made in CLASSES)


@pytest.mark.parametrize("made", CLASSES)
def test_the_stub_matches_the_descriptor(made: Any) -> None:
    methods = {
        node.name: node for node in STUB[made.__name__].body if isinstance(node, ast.FunctionDef)
    }
    init = methods.pop("__init__").args
    assert not init.args[1:]
    taken = {arg.arg: ast.unparse(arg.annotation) for arg in init.kwonlyargs if arg.annotation}
    oneofs = made.DESCRIPTOR.oneofs_by_name
    if oneofs:
        [names] = [[field.name for field in oneof.fields] for oneof in oneofs.values()]
        answer = methods.pop("WhichOneof").returns
        assert answer is not None
        literal = ", ".join(map(repr, names))
        assert ast.unparse(answer) == f"Literal[{literal}] | None"
    given = {name: ast.unparse(node.returns) for name, node in methods.items() if node.returns}
    said = {field.name: type_of(field) for field in made.DESCRIPTOR.fields}
    assert given == {name: gives for name, (gives, _) in said.items()}
    assert taken == {name: takes for name, (_, takes) in said.items()}


def test_fields_that_are_properties_in_the_stub_cannot_be_set() -> None:
    for made in CLASSES:
        for field in made.DESCRIPTOR.fields:
            with pytest.raises(AttributeError, match=r"^Assignment not allowed"):
                setattr(made(), field.name, getattr(made(), field.name))
