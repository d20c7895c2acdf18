"""StreamReader compared with a simple model of partitions, chunks and damage."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tfrecord import frame, masked_crc
from torchrec_io import CorruptRecordError, TorchRecIOError, TruncatedFileError
from torchrec_io._records.stream_reader import STREAM_LOCATION, StreamChunk, StreamReader
from torchrec_io._storage.location import Location


class Record(NamedTuple):
    """A record of a partition."""

    path: str
    number: int
    offset: int
    data: bytes
    valid: bool


class Damage(NamedTuple):
    """Damage that ends a file."""

    path: str
    number: int
    offset: int
    error: type[TorchRecIOError]


Event: TypeAlias = Record | Damage


# ---- the model ----


def read_events(path: str) -> list[Event]:
    """Return the records of a file and its damage, read in the simplest way."""
    content = Path(path).read_bytes()
    events: list[Event] = []
    at = 0
    while at < len(content):
        head = content[at : at + 12]
        damage = Damage(path, len(events), at, TruncatedFileError)
        if len(head) < 12:
            return [*events, damage]
        (length,) = struct.unpack("<Q", head[:8])
        if masked_crc(head[:8]) != int.from_bytes(head[8:], "little"):
            return [*events, damage._replace(error=CorruptRecordError)]
        data = content[at + 12 : at + 12 + length]
        foot = content[at + 12 + length : at + 16 + length]
        if len(foot) < 4:
            return [*events, damage]
        valid = masked_crc(data) == int.from_bytes(foot, "little")
        events.append(Record(path, len(events), at, data, valid))
        at += 16 + length
    return events


def assign(paths: Sequence[str], partition: int, partitions: int) -> list[Event]:
    """Return the events of one partition."""
    files = [read_events(path) for path in paths]
    if len(files) >= partitions:
        return [event for file in files[partition::partitions] for event in file]
    events: list[Event] = []
    for number, file in enumerate(files):
        count = number
        for event in file:
            if count % partitions == partition:
                events.append(event)
            count += isinstance(event, Record)
    return events


def grouped(events: Sequence[Event], size: int, skip: int) -> list[list[Event]]:
    """Group events by a number of records. Damage is in the group that is being filled."""
    chunks: list[list[Event]] = []
    records = 0
    for event in events:
        records += isinstance(event, Record)
        if records - isinstance(event, Record) < skip:
            continue
        if not chunks or sum(isinstance(e, Record) for e in chunks[-1]) == size:
            chunks.append([])
        chunks[-1].append(event)
    return chunks


# ---- the reader's chunks as events of the model ----


def events_of(reader: StreamReader, chunk: StreamChunk) -> list[Event]:
    block, errors = reader.fetch(reader.plan(chunk))
    assert block.numbers.dtype == STREAM_LOCATION
    places = reader.locate(block.numbers)
    assert all(place.key == f"{place.path}:{place.offset}" for place in places)
    valid = {place: Record(*place[:3], block[i], valid=True) for i, place in enumerate(places)}
    events: list[Event] = []
    for i, place in enumerate(reader.locate(chunk.block.numbers)):
        if place in valid:
            events.append(valid[place])
            continue
        error = errors.pop(0)
        assert isinstance(error, CorruptRecordError)
        assert (error.path, error.record, error.offset) == place[:3]
        events.append(Record(*place[:3], chunk.block[i], valid=False))
    return events + [damage_of(error) for error in errors]


def damage_of(error: TorchRecIOError) -> Damage:
    assert error.path is not None
    assert error.record is not None
    assert error.offset is not None
    return Damage(error.path, error.record, error.offset, type(error))


def records_first(events: Sequence[Event]) -> list[Event]:
    """Return events in the order of a chunk: records, then damage."""
    return sorted(events, key=lambda event: isinstance(event, Damage))


# ---- files ----

# Data of each record, and the byte with a wrong bit, if any.
Contents: TypeAlias = "list[tuple[list[tuple[bytes, int | None]], int]]"


@st.composite
def contents(draw: st.DrawFn, max_files: int = 5) -> Contents:
    """Draw files of a few records, some of them damaged or truncated."""
    record = st.tuples(
        st.binary(max_size=30), st.one_of(st.none(), st.none(), st.none(), st.integers(0, 45))
    )
    file = st.tuples(
        st.lists(record, max_size=12), st.one_of(st.just(0), st.just(0), st.integers(0, 40))
    )
    return draw(st.lists(file, min_size=1, max_size=max_files))


def content_of(records: list[tuple[bytes, int | None]], cut: int) -> bytes:
    stream = bytearray()
    for data, flip in records:
        framed = bytearray(frame(data))
        if flip is not None:
            framed[flip % len(framed)] ^= 1
        stream += framed
    return bytes(stream[: len(stream) - min(cut, len(stream))])


def write(folder: Path, files: Contents) -> list[str]:
    paths = []
    for number, (records, cut) in enumerate(files):
        path = folder / f"{number}"
        path.write_bytes(content_of(records, cut))
        paths.append(str(path))
    return paths


PARTITIONS = st.integers(1, 7)
SIZES = st.integers(1, 9)
SKIPS = st.integers(0, 30)


@given(files=contents(), partitions=PARTITIONS, size=SIZES, skip=SKIPS)
def test_every_partition_matches_the_model(
    tmp_path_factory: pytest.TempPathFactory, files: Contents, partitions: int, size: int, skip: int
) -> None:
    paths = write(tmp_path_factory.mktemp("files"), files)
    reader = StreamReader([Location.of(path) for path in paths], compression=None)
    for partition in range(partitions):
        chunks = list(reader.chunks(partition, partitions, size=size, skip=skip))
        expected = grouped(assign(paths, partition, partitions), size, skip)
        assert [events_of(reader, chunk) for chunk in chunks] == list(map(records_first, expected))
