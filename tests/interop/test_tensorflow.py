"""TensorFlow itself, asked the same questions: its answers to Examples, its files read by us.

The rule (see the docs on differences): legal protobuf is read as protobuf reads it, illegal bytes
are refused, and what a spec then makes of the values is TensorFlow's answer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import DecodeError as ProtobufDecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

import torchrec_io as tio
from tests.conftest import TfOracle
from tests.features import wire
from tests.features.forms import batch_to_json, schema_of
from tests.features.spellings import KEYS, damaged, example_bytes, has_groups, read_loosely
from tests.features.wire import (
    bytes_feature,
    delimited,
    entry,
    example,
    float_feature,
    int_feature,
    packed_ints,
    tag,
    unpacked_floats,
    unpacked_ints,
    varint,
)
from tests.support.tfrecord import write_tfrecord
from torchrec_io.errors import DecodeError, SchemaError, TorchRecIOError, TruncatedFileError
from torchrec_io.records.stream import iter_records

# Each example is a question to another process.
few = settings(max_examples=max(30, settings().max_examples // 2))

Spec = dict[str, Any]
Result = dict[str, Any] | None  # None: refused


def ours(records: list[bytes], spec: Spec) -> Result:
    """What we make of some Examples."""
    try:
        return batch_to_json(tio.parse_examples(records, schema_of(spec)))
    except (DecodeError, SchemaError):
        return None


def theirs(oracle: TfOracle, records: list[bytes], spec: Spec) -> Result:
    """What TensorFlow makes of them."""
    features: Result = oracle.parse_example(records, spec).get("features")
    return features


# ---- specs and Examples of any shape ----

MakeFeature = Callable[..., bytes]

KINDS: dict[str, MakeFeature] = {
    "int64": int_feature,
    "float32": float_feature,
    "string": bytes_feature,
}
UNPACKED: dict[str, MakeFeature] = {
    "int64": lambda *values: delimited(3, unpacked_ints(values)),
    "float32": lambda *values: delimited(2, unpacked_floats(values)),
    "string": bytes_feature,
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.one_of(st.integers(-300, 300), st.integers(-(2**63), 2**63 - 1)),
    "float32": st.floats(width=32, allow_nan=False),
    "string": st.binary(max_size=12),
}
SHAPES = st.sampled_from([[], [], [1], [2], [3], [2, 2], [0], [2, 0]])


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """Specs for some of the keys."""
    spec: Spec = {}
    for key in draw(st.lists(st.sampled_from([*KEYS, "absent"]), min_size=1, unique=True)):
        dtype = draw(st.sampled_from(["int64", "float32", "string"]))
        if draw(st.booleans()):
            spec[key] = {"type": "VarLen", "dtype": dtype}
            continue
        shape = draw(SHAPES)
        count = 1
        for size in shape:
            count *= size
        default = None
        if draw(st.booleans()):
            wrong = draw(st.sampled_from([0, 0, 0, 0, 0, 1]))
            values = draw(st.lists(VALUES[dtype], min_size=count + wrong, max_size=count + wrong))
            default = [to_json(value, dtype) for value in values]
            if count == 1 and draw(st.booleans()):
                default = default[0]
        spec[key] = {"type": "FixedLen", "dtype": dtype, "shape": shape, "default": default}
    return spec


def to_json(value: Any, dtype: str) -> Any:
    if dtype == "float32":
        return struct.pack(">f", value).hex()
    return value.hex() if dtype == "string" else value


@st.composite
def records_for(draw: st.DrawFn, spec: Spec) -> list[bytes]:
    """Examples that mostly hold what a spec asks for, spelled as TensorFlow reads them."""
    records: list[bytes] = []
    for _ in range(draw(st.integers(0, 4))):
        entries: list[bytes] = []
        for key, feature in spec.items():
            odd = draw(st.integers(0, 19))
            if odd == 0 or key == "absent":
                continue
            dtype = feature["dtype"] if odd > 1 else draw(st.sampled_from(list(KINDS)))
            count = draw(st.integers(0, 4))
            if feature["type"] == "FixedLen" and odd > 2:
                count = 1
                for size in feature["shape"]:
                    count *= size
            values = draw(st.lists(VALUES[dtype], min_size=count, max_size=count))
            # TensorFlow writes unpacked floats past the end of a row that is too short for them.
            safe = feature["type"] == "VarLen" or odd > 2
            spelled = draw(st.sampled_from([KINDS, UNPACKED if safe else KINDS]))[dtype](*values)
            if odd == 3:
                spelled = b""  # no kind set
            fields = [delimited(1, key.encode()), delimited(2, spelled)]
            if odd == 4:
                fields.reverse()
            entries.append(delimited(1, b"".join(fields)))
        entries = draw(st.permutations(entries))
        cut = draw(st.sampled_from([0, 0, 0, 1, 2]))
        parts = (entries[:cut], entries[cut:]) if cut else (entries,)
        records.append(b"".join(example(*part) for part in parts))
    return records


@few
@given(specs(), st.data())
def test_any_spec_of_any_examples(tf_oracle: TfOracle, spec: Spec, data: st.DataObject) -> None:
    records = data.draw(records_for(spec))
    assert ours(records, spec) == theirs(tf_oracle, records, spec)


def canonical(record: bytes) -> bytes:
    """A record as TensorFlow's writers would spell what protobuf reads in it.

    Raises:
        ProtobufDecodeError: the record is not legal.
    """
    lists: dict[str, MakeFeature] = {
        "bytes_list": bytes_feature,
        "float_list": float_feature,
        "int64_list": int_feature,
    }
    entries = []
    for key, (kind, values) in read_loosely(record, KEYS).items():
        entries.append(entry(key, b"" if kind is None else lists[kind](*values)))
    return example(*entries)


@few
@given(specs(), st.lists(example_bytes(), max_size=3))
def test_odd_spellings_mean_what_protobuf_reads(
    tf_oracle: TfOracle, spec: Spec, records: list[bytes]
) -> None:
    plain = [canonical(record) for record in records]
    assert ours(records, spec) == theirs(tf_oracle, plain, spec)


@few
@given(specs(), damaged())
def test_damaged_examples_mean_what_protobuf_reads_or_are_refused(
    tf_oracle: TfOracle, spec: Spec, record: bytes
) -> None:
    try:
        plain = canonical(record)
    except ProtobufDecodeError:
        # What nobody asks for stays unread, so ask for all that may be there.
        everything = {key: {"type": "VarLen", "dtype": "int64"} for key in KEYS}
        assert ours([record], {**everything, **spec}) is None
        return
    found = ours([record], spec)
    if found is not None or not has_groups(record):
        assert found == theirs(tf_oracle, [plain], spec)


# ---- where TensorFlow and protobuf part ----

INTS = {"x": {"type": "VarLen", "dtype": "int64"}}
FLOATS = {"x": {"type": "VarLen", "dtype": "float32"}}
GROUP = tag(9, wire.GROUP) + tag(9, wire.END_GROUP)
UNKNOWN = delimited(9, b"?")
LONG = varint(1, 11)


def ints(values: bytes) -> bytes:
    return example(entry("x", delimited(3, values)))


# name: spec, record, TensorFlow's values, ours; None where it is refused.
DIFFERENCES: dict[str, tuple[Spec, bytes, list[Any] | None, list[Any] | None]] = {
    "two packed chunks": (INTS, ints(packed_ints([1]) + packed_ints([2])), [1], [1, 2]),
    "packed, then unpacked": (INTS, ints(packed_ints([1]) + unpacked_ints([2])), [1], [1, 2]),
    "unpacked, then packed": (INTS, ints(unpacked_ints([1]) + packed_ints([2])), None, [1, 2]),
    "the last of two kinds": (
        INTS,
        example(entry("x", float_feature(1.0) + int_feature(2))),
        None,
        [2],
    ),
    "two lists of one kind": (
        INTS,
        example(entry("x", int_feature(1) + int_feature(2))),
        [1],
        [1, 2],
    ),
    "unknown field in Features": (INTS, example(UNKNOWN, entry("x", int_feature(1))), None, [1]),
    "unknown field in an entry": (
        INTS,
        example(delimited(1, delimited(1, b"x") + delimited(2, int_feature(1)) + UNKNOWN)),
        None,
        [1],
    ),
    "unknown field before the list": (
        INTS,
        example(entry("x", UNKNOWN + int_feature(1))),
        None,
        [1],
    ),
    "unknown field in a list": (INTS, ints(unpacked_ints([1]) + UNKNOWN), None, [1]),
    "group": (INTS, GROUP + example(entry("x", int_feature(1))), None, [1]),
    "entry without a value": (INTS, example(delimited(1, delimited(1, b"x"))), None, []),
    "entry without a key": (INTS, example(delimited(1, delimited(2, int_feature(1)))), None, []),
    "overlong tag of a part": (
        INTS,
        delimited(1, entry("x", int_feature(1)), tag_size=2),
        [],
        [1],
    ),
    "overlong tag in a list": (INTS, ints(delimited(1, b"\x01", tag_size=2)), None, [1]),
    "length past the part": (INTS, b"\x0a\x7f" + entry("x", int_feature(1)), [1], None),
    "length past the end of the record": (INTS, b"\x0a\x05", [], None),
    "spare bytes in packed floats": (
        FLOATS,
        example(entry("x", delimited(2, delimited(1, struct.pack("<f", 1.0) + b"\0")))),
        ["3f800000"],
        None,
    ),
    "field number 0": (INTS, b"\x00\x01" + example(entry("x", int_feature(1))), [1], None),
    "long varint": (INTS, ints(delimited(1, LONG)), None, None),
    "key that is not UTF-8": (
        INTS,
        example(entry(b"\xff", int_feature(2)), entry("x", int_feature(1))),
        [1],
        [1],
    ),
    "last entry of a key without a kind": (
        INTS,
        example(entry("x", int_feature(1)), entry("x", b"")),
        [],
        [],
    ),
    "kind of no such number": (INTS, example(entry("x", delimited(4, b""))), None, []),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_the_table_of_differences(tf_oracle: TfOracle, name: str) -> None:
    spec, record, tensorflow, torchrec_io = DIFFERENCES[name]
    for result, expected in (
        (theirs(tf_oracle, [record], spec), tensorflow),
        (ours([record], spec), torchrec_io),
    ):
        assert (None if result is None else result["x"]["values"]) == expected


def test_a_default_where_the_last_entry_has_no_kind(tf_oracle: TfOracle) -> None:
    spec = {"x": {"type": "FixedLen", "dtype": "int64", "shape": [], "default": 5}}
    record = example(entry("x", int_feature(1)), entry("x", b""))
    assert theirs(tf_oracle, [record], spec) == {"x": int64s([1])}  # the entry before
    assert ours([record], spec) == {"x": int64s([5])}


def int64s(values: list[int]) -> dict[str, Any]:
    return {"dtype": "int64", "shape": [len(values)], "values": values}


# ---- files ----

COMPRESSIONS = {"": None, "GZIP": "gzip", "ZLIB": "zlib"}
payloads = st.lists(st.one_of(st.binary(max_size=20), st.just(b"z" * 3000)), max_size=8)


@few
@pytest.mark.parametrize("compression", COMPRESSIONS)
@given(records=payloads)
def test_files_that_tensorflow_writes(
    tf_oracle: TfOracle, tmp_path: Path, compression: str, records: list[bytes]
) -> None:
    path = tmp_path / "written.tfrecord"
    tf_oracle.ask(
        op="write_records",
        path=str(path),
        records=[record.hex() for record in records],
        compression=compression,
    )
    found = list(iter_records(path))
    assert [record for _, record in found] == records
    index = tio.RecordIndex.build(path)
    # An empty GZIP or ZLIB file has its header all the same.
    assert index.compression == COMPRESSIONS[compression]
    assert index.lengths.tolist() == [len(record) for record in records]
    assert index.offsets.tolist() == [offset for offset, _ in found]
    assert list(tio.TFRecordDataset(path, num_threads=1)) == records


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_tensorflow_reads_the_files_of_these_tests(
    tf_oracle: TfOracle, tmp_path: Path, compression: str
) -> None:
    records = [b"", b"a", b"b" * 1000]
    path = write_tfrecord(tmp_path / "a.tfrecord", records, COMPRESSIONS[compression])
    answer = tf_oracle.ask(op="read_records", path=str(path), compression=compression)
    assert answer == {"records": [r.hex() for r in records], "error": None, "message": None}


def read_until_damage(path: Path, compression: Any) -> tuple[list[bytes], TorchRecIOError | None]:
    found: list[bytes] = []
    try:
        for _, record in iter_records(path, compression=compression):
            found.append(record)
    except TorchRecIOError as error:
        return found, error
    return found, None


RECORDS = [b"first", b"", b"second record", b"x" * 40, bytes(10)]


@few
@given(st.data())
def test_damaged_files(tf_oracle: TfOracle, tmp_path: Path, data: st.DataObject) -> None:
    path = write_tfrecord(tmp_path / "a.tfrecord", RECORDS)
    whole = path.read_bytes()
    stream = bytearray(whole)
    if data.draw(st.booleans()):
        stream[data.draw(st.integers(0, len(stream) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = data.draw(st.one_of(st.just(len(stream)), st.integers(0, len(stream))))
    path.write_bytes(stream[:cut])
    answer = tf_oracle.ask(op="read_records", path=str(path), compression="")
    found, error = read_until_damage(path, None)
    assert [record.hex() for record in found] == answer["records"]
    read = sum(len(record) + 16 for record in found)
    if answer["error"] is None and read != cut:
        # A few bytes after the last record: TensorFlow sees a clean end.
        assert cut - read < 12
        assert isinstance(error, TruncatedFileError)
        assert error.offset == read
    else:
        assert (error is None) == (answer["error"] is None)


@few
@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
@given(part=st.floats(0, 1))
def test_compressed_files_cut_short(
    tf_oracle: TfOracle, tmp_path: Path, compression: str, part: float
) -> None:
    kind = COMPRESSIONS[compression]
    path = write_tfrecord(tmp_path / "a.tfrecord", RECORDS, kind)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part)])
    answer = tf_oracle.ask(op="read_records", path=str(path), compression=compression)
    found, error = read_until_damage(path, kind)
    assert found == RECORDS[: len(found)]
    assert len(answer["records"]) <= len(found)
    # TensorFlow takes some cuts for a clean end. We take only an empty file and a whole one.
    cut = 0 < int(len(whole) * part) < len(whole)
    assert (error is not None) == cut
    if answer["error"] is not None:
        assert error is not None


@few
@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
@given(data=st.data())
def test_compressed_files_with_a_changed_bit(
    tf_oracle: TfOracle, tmp_path: Path, compression: str, data: st.DataObject
) -> None:
    kind = COMPRESSIONS[compression]
    path = write_tfrecord(tmp_path / "a.tfrecord", RECORDS, kind)
    stream = bytearray(path.read_bytes())
    stream[data.draw(st.integers(0, len(stream) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(stream)
    answer = tf_oracle.ask(op="read_records", path=str(path), compression=compression)
    found, error = read_until_damage(path, kind)
    assert found == RECORDS[: len(found)]
    assert len(answer["records"]) <= len(found)
    if answer["error"] is not None:
        assert error is not None
    if error is None:
        assert found == RECORDS


def test_reserved_gzip_flags_are_refused(tf_oracle: TfOracle, tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "a.tfrecord", RECORDS, "gzip")
    stream = bytearray(path.read_bytes())
    stream[3] |= 0x20
    path.write_bytes(stream)
    answer = tf_oracle.ask(op="read_records", path=str(path), compression="GZIP")
    assert answer["error"] == "DataLossError"
    assert read_until_damage(path, "gzip")[1] is not None
