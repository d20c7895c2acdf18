"""Reading of files that cannot seek: FIFOs, standard input, /dev/fd."""

from __future__ import annotations

import errno
import gzip
import itertools
import os
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.pipes import feeding
from tests.support.reading import read
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io import RecordIndex
from torchrec_io._records.sequential import iter_records

RECORDS = [b"", b"abc", bytes(3 << 20), b"x" * 100, bytes((1 << 20) - 16), *[b"small"] * 9000]
PACKERS: dict[str | None, Callable[[bytes], bytes]] = {
    None: bytes,
    "gzip": gzip.compress,
    "zlib": zlib.compress,
}
WINDOW_BITS = {"gzip": 31, "zlib": 15}


@pytest.mark.parametrize("compression", [None, "gzip", "zlib"])
def test_pipe_reads_like_a_file(tmp_path: Path, compression: str | None) -> None:
    file = write_tfrecord(tmp_path / "file", RECORDS, compression)
    with feeding(tmp_path / "pipe", [file.read_bytes()]) as pipe:
        found = read(pipe, compression="auto")  # given in the next test
    assert found == read(file)
    assert [data for _, data in found[0]] == RECORDS


@given(
    records=st.lists(st.binary(max_size=40), max_size=6),
    cut=st.integers(0, 300),
    compression=st.sampled_from([None, "gzip", "zlib"]),
    cut_inside=st.booleans(),
    size=st.integers(1, 40),
)
def test_truncated_pipe_reads_like_a_truncated_file(
    tmp_path_factory: pytest.TempPathFactory,
    *,
    records: list[bytes],
    cut: int,
    compression: str | None,
    cut_inside: bool,
    size: int,
) -> None:
    pack = PACKERS[compression]
    whole = b"".join(map(frame, records))
    content = pack(whole[:cut]) if cut_inside else pack(whole)[:cut]
    folder = tmp_path_factory.mktemp("cut")
    (folder / "file").write_bytes(content)
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    with feeding(folder / "pipe", pieces) as pipe:
        found, error = read(pipe, compression=compression)
    kept, expected = read(folder / "file", compression=compression)
    assert found == kept
    assert type(error) is type(expected)
    if error is not None and expected is not None:
        assert (error.record, error.offset) == (expected.record, expected.offset)
        assert error.path == str(pipe)


@pytest.mark.parametrize("compression", [None, "gzip", "zlib"])
def test_record_is_yielded_before_the_next_is_written(
    tmp_path: Path, compression: str | None
) -> None:
    seen = threading.Event()
    packer = None if compression is None else zlib.compressobj(wbits=WINDOW_BITS[compression])

    def pieces() -> Iterator[bytes]:
        for data in (b"first", b"second"):
            if packer is None:
                yield frame(data)
            else:
                yield packer.compress(frame(data)) + packer.flush(zlib.Z_SYNC_FLUSH)
            assert seen.wait(30)
        yield b"" if packer is None else packer.flush()

    with feeding(tmp_path / "pipe", pieces()) as pipe:
        records = iter_records(pipe)
        assert next(records) == (0, b"first")
        seen.set()
        assert list(records) == [(21, b"second")]


def test_closing_the_generator_closes_the_pipe(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with feeding(tmp_path / "pipe", itertools.repeat(frame(b"abc"))) as pipe:
        records = iter_records(pipe)
        next(records)
        records.close()  # type: ignore[attr-defined]
    # The writer, which would write forever, has ended too.
    assert len(os.listdir("/proc/self/fd")) == before
    assert list(records) == []


def test_pipe_cannot_be_indexed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="a pipe has no index") as caught:
        RecordIndex.build(tmp_path / "pipe")  # does not wait for a writer
    assert caught.value.errno == errno.ESPIPE
    assert caught.value.filename == str(tmp_path / "pipe")
