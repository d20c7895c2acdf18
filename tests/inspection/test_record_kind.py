"""The kind of a file's records, recognized from their bytes."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT, Wild
from tests.support.example_lists import ExampleListWithContext
from tests.support.messages import Example, SequenceExample
from torchrec_io._records.sequential import iter_records
from torchrec_io.inspection.dynamic_messages import parse_message
from torchrec_io.inspection.record_kind import (
    BYTES,
    EXAMPLE,
    EXAMPLE_LIST,
    PLAIN_TEXT,
    SEQUENCE,
    group_by_kind,
    natural_key,
    recognize_kind,
)


def example(**features: int) -> Any:
    made = Example()
    for name, value in features.items():
        made.features.feature[name].int64_list.value.append(value)
    return made


def test_examples_sequences_and_lists() -> None:
    flat = example(a=1).SerializeToString()
    sequence = SequenceExample()
    sequence.context.feature["n"].int64_list.value.append(1)
    sequence.feature_lists.feature_list["x"].feature.add().float_list.value.append(0.5)
    ranking = ExampleListWithContext(examples=[example(a=1), example(a=2)])
    ranking.context.CopyFrom(example(query=7))
    assert recognize_kind([flat]) is EXAMPLE
    assert recognize_kind([sequence.SerializeToString()]) is SEQUENCE
    assert recognize_kind([ranking.SerializeToString()]) is EXAMPLE_LIST
    # A SequenceExample may be without feature lists; the others say what it is.
    assert recognize_kind([flat, sequence.SerializeToString()]) is SEQUENCE


def test_an_example_list_shows_the_value_of_each_example() -> None:
    ranking = ExampleListWithContext(examples=[example(a=1, c10=5), example(a=2, c2=6)])
    parts = EXAMPLE_LIST.read(ranking.SerializeToString())
    assert parts is not None
    assert list(parts["examples"]) == ["a", "c2", "c10"]
    assert parts["examples"]["a"].values == [[1], [2]]
    assert parts["examples"]["c2"].values == [None, [6]]


def test_events_of_tensorboard() -> None:
    event = pytest.importorskip("tensorboard.compat.proto.event_pb2").Event
    summary = {
        "value": [
            {"tag": "loss", "simple_value": 0.0},
            {"tag": "picture", "image": {"height": 2, "width": 3}},
            {"tag": "loss", "simple_value": 0.5},
        ]
    }
    records = [
        event(wall_time=1.5, file_version="brain.Event:2").SerializeToString(),
        event(wall_time=2.5, step=7, summary=summary).SerializeToString(),
    ]
    kind = recognize_kind(records)
    assert kind.name == "TensorBoard event (tensorflow.Event)"
    parts = kind.read(records[1])
    assert parts is not None
    shown = {name: field.values for name, field in parts["message"].items()}
    assert shown == {
        "wall_time": [2.5],
        "step": [7],
        "loss": [0.0, 0.5],
        "picture": [{"image": {"height": 2, "width": 3}}],
    }


def field(number: int, value: bytes | float) -> bytes:
    """Return a field of a message; integers and sizes are below 128."""
    wire_type = 2 if isinstance(value, bytes) else 1 if isinstance(value, float) else 0
    tag = number << 3 | wire_type
    start = bytes([tag]) if tag < 128 else bytes([tag & 0x7F | 0x80, tag >> 7])
    if isinstance(value, bytes):
        return start + bytes([len(value)]) + value
    return start + (struct.pack("<d", value) if isinstance(value, float) else bytes([value]))


REGION = field(1, b"chr1") + field(2, 10) + field(3, 20)
INFO = field(1, b"DP") + field(2, field(1, field(7, 5)))
MESSAGES = {
    "nucleus.genomics.v1.FastqRecord": field(1, b"id") + field(3, b"GATT") + field(4, b"BB@F"),
    "nucleus.genomics.v1.BedRecord": REGION + field(4, b"first") + field(5, 100.0),
    "nucleus.genomics.v1.GffRecord": field(1, REGION) + field(3, b"gene") + field(4, 2.5),
    "nucleus.genomics.v1.Variant": (
        field(6, b"A") + field(7, b"T") + field(10, INFO) + field(13, 21) + field(14, b"chr1")
        + field(16, 20)
    ),
    "nucleus.genomics.v1.Read": field(4, b"name") + field(14, b"GATT") + field(15, b"\x20\x21"),
    "tensorflow.metadata.v0.DatasetFeatureStatisticsList": (
        field(1, field(2, 7) + field(3, field(1, b"width") + field(2, 1)))
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MESSAGES)
def test_known_messages(name: str) -> None:
    record = MESSAGES[name]
    kind = recognize_kind([record, record])
    assert kind.name == name
    assert kind.read(record) is not None
    # A field that the message does not have, and a message that is cut.
    assert kind.read(record + field(31, 1)) is None
    assert kind.read(record[:-1]) is None


def test_known_messages_in_pure_python() -> None:
    """Protobuf has an implementation in Python for systems without its native one."""
    variable = {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    code = """
from tests.inspection.test_record_kind import MESSAGES, field
from torchrec_io.inspection.record_kind import recognize_kind

for name, record in MESSAGES.items():
    kind = recognize_kind([record])
    assert kind.name == name, kind
    assert kind.read(record + field(31, 1)) is None
fastq = MESSAGES["nucleus.genomics.v1.FastqRecord"]
assert recognize_kind([fastq.replace(b"id", b"\\xe7d")]).name != "nucleus.genomics.v1.FastqRecord"
"""
    environment = {**os.environ, **variable}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=ROOT, timeout=60)


def test_the_fields_of_a_known_message() -> None:
    record = MESSAGES["nucleus.genomics.v1.Variant"]
    parts = recognize_kind([record]).read(record)
    assert parts is not None
    assert {name: (shown.kind, shown.values) for name, shown in parts["message"].items()} == {
        "reference_bases": ("string", ["A"]),
        "alternate_bases": ("string", ["T"]),
        "info": ("map", [{"DP": {"values": [{"int_value": 5}]}}]),
        "end": ("int64", [21]),
        "reference_name": ("string", ["chr1"]),
        "start": ("int64", [20]),
    }


def test_text_and_bytes() -> None:
    assert recognize_kind([b"one line", "zwei Wörter\n".encode()]) is PLAIN_TEXT
    assert recognize_kind([b"one line", b"\xff\xfe"]) is BYTES
    assert recognize_kind([]) is BYTES


def test_a_message_of_unknown_type_is_shown_by_the_numbers_of_its_fields() -> None:
    inner = b"\x0a\x05hello\x10\x07"
    record = b"\x08\x96\x01" + b"\x1a" + bytes([len(inner)]) + inner + b"\x25\0\0\x80\x3f"
    kind = recognize_kind([record, record])
    assert kind.name == "protobuf message of unknown type"
    parts = kind.read(record)
    assert parts is not None
    assert {name: field.values for name, field in parts["message"].items()} == {
        "field 1": [150],
        "field 3": [{"1": "hello", "2": 7}],
        "field 4": [1.0],
    }


def test_records_of_several_kinds_are_grouped_and_empty_ones_fit_any() -> None:
    flat = example(a=1).SerializeToString()
    parts = EXAMPLE.read(flat)
    assert group_by_kind([flat, b"", flat]) == [(EXAMPLE, [0, 1, 2], [parts, None, parts])]
    groups = group_by_kind([flat, b"some text", flat, b"\xff\xff"])
    assert groups == [
        (EXAMPLE, [0, 2], [parts, parts]),
        (PLAIN_TEXT, [1], [None]),
        (BYTES, [3], [None]),
    ]
    assert group_by_kind([]) == [(BYTES, [], [])]


def test_records_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be large."""
    read: list[bytes] = []

    def parse(name: str, record: bytes) -> Any:
        read.append(record)
        return parse_message(name, record)

    monkeypatch.setattr("torchrec_io.inspection.record_kind.parse_message", parse)
    records = [example(a=number).SerializeToString() for number in range(3)]
    [(_, _, parts)] = group_by_kind(records)
    assert read == records
    assert [part and part["features"]["a"].values for part in parts] == [[0], [1], [2]]


def test_names_are_in_natural_order() -> None:
    names = ["c10", "c2", "c1b", "c1", "b", "10", "9", "c02"]
    assert sorted(names, key=natural_key) == ["9", "10", "b", "c1", "c1b", "c2", "c02", "c10"]
    assert natural_key("x" + "1" * 5000) > natural_key("x2")


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_any_bytes_have_a_kind_that_reads_them(records: list[bytes]) -> None:
    groups = group_by_kind(records)
    assert sorted(at for group in groups for at in group.positions) == list(range(len(records)))
    for kind, positions, parts in groups:
        for at, part in zip(positions, parts, strict=True):
            if records[at] and kind not in (PLAIN_TEXT, BYTES):
                assert part is not None
                assert repr(part) == repr(kind.read(records[at]))  # NaN is not equal to itself
            else:
                assert part is None


def test_random_bytes_are_not_taken_for_messages() -> None:
    records = [random.Random(number).randbytes(200) for number in range(20)]
    assert recognize_kind(records) is BYTES


NAMES = {
    "Example": "tf.train.Example",
    "SequenceExample": "tf.train.SequenceExample",
    "ExampleListWithContext": "ExampleListWithContext (ELWC)",
    "Event": "TensorBoard event (tensorflow.Event)",
    "custom translation-pair proto": "protobuf message of unknown type",
}


def test_real_files(wild: Wild) -> None:
    for entry in wild.manifest["files"]:
        path, payload = entry["path"], entry["payload_kind"]
        # The manifest names the source's type, but the bytes are those of the FASTQ file.
        if path.endswith(("/test_reads.tfrecord", "/test_reads.tfrecord.gz")):
            payload = "nucleus.genomics.v1.FastqRecord"
        records = [data for _, data in islice(iter_records(wild.path / path), 5)]
        if records:
            groups = [(kind.name, len(at)) for kind, at, _ in group_by_kind(records)]
            assert groups == [(NAMES.get(payload, payload), len(records))], path
