"""Indexes of other record formats: where they are cached, and when they are stale."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import torchrec_io as tio
from tests.support.formats import Netstrings, netstring
from torchrec_io._records.fixed_length import FixedLength
from torchrec_io._records.formats import TFRECORD
from torchrec_io._records.index_cache import cache_path
from torchrec_io._records.index_file import encode_index
from torchrec_io._records.lines import TextLines
from torchrec_io._records.opening import open_indexes
from torchrec_io._records.whole_file import WholeFile
from torchrec_io._storage.local import LocalFile
from torchrec_io._storage.location import Location
from torchrec_io._storage.seek_points import SeekPoint, SeekPoints

NETSTRINGS = Netstrings()


def opened(path: Path, each: tio.RecordFormat) -> tio.RecordIndex:
    [index], _ = open_indexes([Location.of(path)], "auto", "auto", each)
    return index


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x"
    path.write_bytes(b"".join(netstring(b"%05d" % number) for number in range(50)))
    return path


def test_each_format_has_its_own_cached_index(path: Path) -> None:
    formats = [TextLines(), TextLines(1), NETSTRINGS]
    found = [opened(path, each) for each in formats]
    assert [len(index) for index in found] == [1, 0, 50]
    names = [cache_path(path, each) for each in (*formats, TFRECORD)]
    assert len(set(names)) == 4
    assert [name.exists() for name in names] == [True, True, True, False]
    again = [opened(path, each) for each in formats]
    assert [index.index_path for index in again] == [str(name) for name in names[:3]]


def test_index_of_another_format_is_rejected(path: Path) -> None:
    index = tio.RecordIndex.build(path, format=TextLines())
    index.save()
    for other in (TextLines(1), NETSTRINGS, TFRECORD):
        with pytest.raises(tio.IndexFormatError, match="is of another record format"):
            tio.RecordIndex.load(path, format=other)
    assert len(tio.RecordIndex.load(path, format=TextLines())) == 1
    assert len(opened(path, NETSTRINGS)) == 50  # the sidecar is for another format


def test_text_indexes_are_of_tfrecord_files(path: Path) -> None:
    (path.parent / "x.idx").write_text("0 400\n")
    with pytest.raises(tio.IndexFormatError, match="only for TFRecord files"):
        tio.RecordIndex.load(path.parent / "x.idx", path, format=TextLines())


def test_names_and_codes() -> None:
    formats = [TextLines(), TextLines(1), FixedLength(3), FixedLength(3, 1), WholeFile()]
    codes = {each.code for each in formats}
    assert len(codes) == len(formats)
    assert not codes & {0, NETSTRINGS.code}
    assert TextLines(1).code == 0x9C89DC08  # stored in index files, so it must never change
    assert FixedLength(np.int64(3)).code == FixedLength(3).code  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(TFRECORD)) is TFRECORD


@pytest.mark.parametrize("beside", [False, True])
def test_only_the_time_shows_that_lines_were_moved(tmp_path: Path, beside: bool) -> None:
    lines = [b"%d," % number * (1 + number % 3) for number in range(30_000)]
    path = tmp_path / "x"
    path.write_bytes(b"\n".join(lines))
    index = opened(path, TextLines())
    if beside:
        index.save()
    lines[15_000:15_002] = lines[15_001], lines[15_000]
    path.write_bytes(b"\n".join(lines))
    os.utime(path, ns=(1, 1))
    with pytest.raises(tio.StaleIndexError, match="was changed since it was indexed"):
        tio.RecordIndex.load(str(index.index_path), path, format=TextLines())
    for _ in range(2):
        assert list(tio.TextLineDataset(path)) == lines
    assert opened(path, TextLines()).file.header.data_mtime_ns == 1


def test_an_index_without_checksums_of_compressed_lines_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(b"a\nb\n"))
    starts, points = np.array([0, 2], np.uint64), SeekPoints.of([SeekPoint(0, 0)], [])
    content = encode_index(LocalFile(path), starts, 4, "gzip", points, record_format=TextLines())
    path.with_name("x.tfidx").write_bytes(content)
    with pytest.raises(tio.IndexFormatError, match="number of the checksums"):
        tio.TextLineDataset(path, index=f"{path}.tfidx")
    assert list(tio.TextLineDataset(path)) == [b"a", b"b"]
