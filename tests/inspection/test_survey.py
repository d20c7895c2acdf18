"""The native survey of features. ``test_infer.py`` has what a schema is made of."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support import wire
from tests.support.inferring import example_of
from tests.support.spellings import KEYS, example_bytes, read_loosely
from tests.support.tfrecord import write_tfrecord
from torchrec_io._records.record_block import RecordList
from torchrec_io.inspection.surveyor import Surveyor


@given(parts=st.lists(st.lists(example_bytes(), max_size=4), min_size=1, max_size=2))
def test_every_spelling_is_surveyed_as_protobuf_reads_it(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[bytes]]
) -> None:
    folder = tmp_path_factory.mktemp("survey")
    paths = [write_tfrecord(folder / str(number), part) for number, part in enumerate(parts)]
    found = tio.inspection.survey(paths)
    records = [read_loosely(record, KEYS) for part in parts for record in part]
    assert found.records == len(records)
    for key in KEYS:
        filled = [record[key] for record in records if record.get(key, (None, []))[0] is not None]
        if not any(key in record for record in records):
            assert key not in found.context
            continue
        summary = found.context[key]
        kinds = {(kind or "").removesuffix("_list") for kind, _ in filled}
        assert (summary.present, {*summary.kinds}) == (len(filled), kinds)
        counts = [len(values) for _, values in filled]
        assert summary.counts == ((min(counts), max(counts)) if counts else None)
        values = [value for _, values in filled for value in values]
        sizes = [len(value) if isinstance(value, bytes) else value for value in values]
        sizes = [size for size in sizes if not math.isnan(size)]
        is_sized = len(kinds) == 1 and sizes
        assert summary.extent == ((min(sizes), max(sizes)) if is_sized else None)


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
    assert (x.present, *x.kinds, x.counts, x.extent) == (4, "int64", (2, 2), (0, 7))
    assert (y.present, *y.kinds, y.counts, y.extent) == (3, "float", (1, 1), (0.5, 0.5))
    with pytest.raises(ValueError, match="on_error must be"):
        tio.inspection.survey(path, on_error="ignore")  # type: ignore[arg-type]
