"""The native survey of features, compared with one in plain Python."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example as with_example
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import torchrec_io as tio
from tests.support import wire
from tests.support.byte_format_model import sniff_model
from tests.support.inferring import example_of, sequence_of
from tests.support.spellings import damaged, example_bytes, feature_bytes, unknown_field
from tests.support.survey_model import comparable, survey_model
from tests.support.tfrecord import write_tfrecord
from torchrec_io._records.record_block import RecordList
from torchrec_io.inspection.byte_formats import sniff
from torchrec_io.inspection.surveyor import Survey, Surveyor


def picture(kind: str, size: tuple[int, int] = (3, 2)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size).save(file, kind)
    return file.getvalue()


PICTURES = [picture(kind) for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")]

# ---- records ----

texts = st.sampled_from([b"word", "héé".encode(), b"a\tb\n", b"", b"\x7f", "\u2028".encode()])
odd_bytes = st.sampled_from(
    [b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xf0\x9f\x98", b"\xe2\x82", b"\xf5abc"]
)
signatures = st.sampled_from(
    [b"\xff\xd8\xff", b"GIF87a", b"BM", b"II*\0", b"fLaC", b"OggS", b"ID3", b"\x93NUMPY"]
)
tensors = st.builds(
    lambda parts: b"\x08\x01" + b"".join(parts),
    st.lists(
        st.sampled_from([b"\x12\x00", b"\x12\x02\x12\x00", b"\x22\x01a", b"\x2a\x00", b"\x08\x01"])
    ),
)
values = st.one_of(
    texts,
    odd_bytes,
    tensors,
    st.sampled_from([b"\x80\x02.", b"\x80\x05.", b"\x80\x06.", b"\x80\x04N.x", b"\x80."]),
    st.text(max_size=40).map(str.encode),
    st.binary(max_size=8),
    st.builds(bytes.__add__, signatures, st.binary(max_size=20)),
    st.builds(
        bytes.__add__, st.just(b"RIFF1234"), st.sampled_from([b"WEBP", b"WAVE", b"AVI", b""])
    ),
    st.sampled_from(PICTURES),
    st.builds(lambda data, end: data[:end], st.sampled_from(PICTURES), st.integers(0, 80)),
    st.builds(
        lambda text, end: text.encode() * 40 + end, st.text(max_size=3), st.binary(max_size=2)
    ),
)
scalars: dict[str, st.SearchStrategy[Any]] = {
    "bytes": values,
    "float": st.floats(width=32),
    "int64": st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3),
}
features = st.sampled_from([*scalars, "none"]).flatmap(
    lambda kind: st.tuples(
        st.just(kind),
        st.just([]) if kind == "none" else st.lists(scalars[kind], max_size=20),
    )
)
names = st.sampled_from(["a", "b", "c", "é", ""])
mappings = st.dictionaries(names, features, max_size=4)
lists = st.dictionaries(names, st.lists(features, max_size=4), max_size=3)
usual = st.builds(sequence_of, mappings, lists) | st.builds(
    lambda some: example_of(**some), mappings
)


@st.composite
def spelled_sequences(draw: st.DrawFn) -> bytes:
    """A SequenceExample in any of the encodings that protobuf allows."""
    entries = []
    for _ in range(draw(st.integers(0, 3))):
        steps = [wire.delimited(1, draw(feature_bytes())) for _ in range(draw(st.integers(0, 3)))]
        steps += [draw(unknown_field())] if draw(st.booleans()) else []
        parts = [wire.delimited(2, b"".join(steps))] * draw(st.integers(0, 2))
        key = wire.delimited(1, draw(st.sampled_from([b"a", b"b", b"\xff"])))
        entries.append(wire.delimited(1, b"".join(draw(st.permutations([key, *parts])))))
    return draw(example_bytes()) + wire.delimited(2, b"".join(entries))


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    record = bytearray(draw(st.one_of(usual, spelled_sequences())))
    for at, byte in draw(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=3)):
        if at < len(record):
            record[at] = byte
    return bytes(record[: draw(st.integers(0, len(record)))] if draw(st.booleans()) else record)


records = st.lists(
    st.one_of(usual, usual, example_bytes(), spelled_sequences(), damaged(), mutated()), max_size=6
)

# ---- equality with the model ----


def check(given_records: list[bytes], *, with_lists: bool) -> None:
    surveyor = Surveyor(with_lists=with_lists)
    batch = surveyor.add(RecordList.of(given_records))
    found, rejected, first_example = survey_model(given_records, with_lists=with_lists)
    assert comparable(surveyor.result()) == comparable(found)
    assert batch.rejected == rejected
    assert batch.first_example == first_example


@given(some=records, with_lists=st.booleans())
@with_example(some=[b"", example_of(a=[1]) + wire.delimited(2, b"\xff")], with_lists=True)
def test_facts_are_those_of_the_model(some: list[bytes], with_lists: bool) -> None:
    check(some, with_lists=with_lists)


@given(some=records, cuts=st.lists(st.integers(0, 6), max_size=2))
def test_parts_are_merged(some: list[bytes], cuts: list[int]) -> None:
    whole = Survey(0, {}, {})
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), None], strict=True):
        part = Surveyor()
        part.add(RecordList.of(some[start:stop]))
        whole = whole.merged(pickle.loads(pickle.dumps(part.result())))
    assert comparable(whole) == comparable(survey_model(some)[0])


@given(st.lists(usual, max_size=5))
def test_presence_alone(some: list[bytes]) -> None:
    surveyor = Surveyor(with_values=False)
    surveyor.add(RecordList.of(some))
    found, wanted = surveyor.result(), survey_model(some)[0]
    assert found.records == wanted.records
    for part, expected in ((found.context, wanted.context), (found.lists, wanted.lists)):
        assert {name: (each.present, each.kinds) for name, each in part.items()} == {
            name: (each.present, each.kinds) for name, each in expected.items()
        }
        assert all(each.formats == () for each in part.values())


@given(values)
def test_formats(value: bytes) -> None:
    surveyor = Surveyor()
    surveyor.add(RecordList.of([example_of(x=[value])]))
    assert surveyor.result().context["x"].formats == ((sniff(value), 1),)
    assert sniff(value) == sniff_model(value)


@pytest.mark.parametrize("start", range(0, 0x110000, 0x11000))
def test_every_character(start: int) -> None:
    some = [chr(code) for code in range(start, start + 0x11000) if not 0xD800 <= code <= 0xDFFF]
    surveyor = Surveyor()
    surveyor.add(RecordList.of([example_of(x=[character.encode() for character in some])]))
    printable = sum(character.isprintable() or character in "\t\r\n" for character in some)
    formats = dict(surveyor.result().context["x"].formats)
    assert formats.get("UTF-8 text", 0) == printable
    assert sum(formats.values()) == len(some)


# ---- limits ----


def test_the_number_of_features_is_limited() -> None:
    one = wire.int_feature(1)
    most = wire.example(*(wire.entry(str(number), one) for number in range(100_000)))
    surveyor = Surveyor()
    surveyor.add(RecordList.of([most, example_of(**{"5": [1]})]))
    assert len(surveyor.result().context) == 100_000
    other = Surveyor()
    other.add(RecordList.of([example_of(more=[1])]))
    with pytest.raises(tio.SchemaError, match="more than 100,000 different features"):
        surveyor.result().merged(other.result())
    with pytest.raises(tio.SchemaError, match="more than 100,000 different features"):
        surveyor.add(RecordList.of([example_of(more=[1])]))


def test_the_size_of_names_is_limited() -> None:
    surveyor = Surveyor()
    surveyor.add(RecordList.of([example_of(**{"x" * (10 << 20): [1]})]))
    more = [example_of(**{"y" * (7 << 20): [1]})]
    other = Surveyor()
    other.add(RecordList.of(more))
    with pytest.raises(tio.SchemaError, match="take more than 16 MiB"):
        surveyor.result().merged(other.result())
    with pytest.raises(tio.SchemaError, match="take more than 16 MiB"):
        surveyor.add(RecordList.of(more))


def test_features_of_invalid_records_do_not_count() -> None:
    one = wire.int_feature(1)
    surveyor = Surveyor()
    for start in (0, 60_000):  # together more than there may be
        entries = [wire.entry(str(number), one) for number in range(start, start + 60_000)]
        invalid = wire.example(*entries) + b"\xff"
        surveyor.add(RecordList.of([invalid, example_of(x=[start])]))
    assert set(surveyor.result().context) == {"x"}


# ---- files ----


def test_a_survey_of_files(tmp_path: Path) -> None:
    records = [example_of(x=[number, 7], **({"y": [0.5]} if number else {})) for number in range(4)]
    path = write_tfrecord(tmp_path / "x", [*records, b"\xff"])
    with pytest.raises(tio.DecodeError, match="neither a"):
        tio.inspection.survey(path)
    found = tio.inspection.survey(path, on_error="skip")
    assert (found.records, found.total, list(found.lists)) == (4, 4, [])
    x, y = found.context["x"], found.context["y"]
    assert (x.present, x.kinds, x.counts, x.extent) == (4, {"int64"}, (2, 2), (0, 7))
    assert (y.present, y.kinds, y.counts, y.extent) == (3, {"float"}, (1, 1), (0.5, 0.5))
    with pytest.raises(ValueError, match="on_error must be"):
        tio.inspection.survey(path, on_error="ignore")  # type: ignore[arg-type]
