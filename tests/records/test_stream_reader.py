"""The ranks of a TFRecordStream share its records and its damage. Their orders are in contract/."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tfrecord import frame
from torchrec_io import TFRecordStream, TorchRecIOError

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


def read(paths: list[str], rank: int, world_size: int) -> tuple[list[Any], list[Any]]:
    """Return the records that a rank reads, with their places, and the errors that it reports."""
    errors: list[TorchRecIOError] = []
    stream = TFRecordStream(
        paths,
        batch_size=3,
        rank=rank,
        world_size=world_size,
        uneven="keep",
        with_key=True,
        on_error=errors.append,
    )
    found = [pair for keys, batch in stream for pair in zip(keys, batch, strict=True)]
    return found, [(error.path, error.record, error.offset, type(error)) for error in errors]


@given(files=contents(), ranks=st.integers(1, 7))
def test_each_record_and_each_error_is_that_of_one_rank(
    tmp_path_factory: pytest.TempPathFactory, files: Contents, ranks: int
) -> None:
    paths = write(tmp_path_factory.mktemp("files"), files)
    found, told = read(paths, 0, 1)
    parts = [read(paths, rank, ranks) for rank in range(ranks)]
    assert sorted(pair for part, _ in parts for pair in part) == sorted(found)
    assert sorted((e for _, part in parts for e in part), key=str) == sorted(told, key=str)
