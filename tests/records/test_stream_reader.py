"""TFRecordStream compared with a simple model of ranks and damage."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tfrecord import frame, masked_crc
from torchrec_io import CorruptRecordError, TFRecordStream, TorchRecIOError, TruncatedFileError


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


@given(files=contents(), ranks=st.integers(1, 7))
def test_every_rank_matches_the_model(
    tmp_path_factory: pytest.TempPathFactory, files: Contents, ranks: int
) -> None:
    paths = write(tmp_path_factory.mktemp("files"), files)
    for rank in range(ranks):
        errors: list[TorchRecIOError] = []
        stream = TFRecordStream(
            paths,
            batch_size=3,
            rank=rank,
            world_size=ranks,
            uneven="keep",
            with_key=True,
            on_error=errors.append,
        )
        found = [pair for keys, batch in stream for pair in zip(keys, batch, strict=True)]
        events = assign(paths, rank, ranks)
        valid = [each for each in events if isinstance(each, Record) and each.valid]
        assert found == [(f"{each.path}:{each.offset}", each.data) for each in valid]
        lost = [
            (*each[:3], each.error if isinstance(each, Damage) else CorruptRecordError)
            for each in events
            if each not in valid
        ]
        told = [(error.path, error.record, error.offset, type(error)) for error in errors]
        assert sorted(told, key=str) == sorted(lost, key=str)
