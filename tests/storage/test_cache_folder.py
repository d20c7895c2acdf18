"""The cache directory is made for this user alone, and files that others can write are ignored."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.tfrecord import write_tfrecord
from torchrec_io._storage.cache_folder import is_own_cache_file


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def use_index(path: str) -> None:
    assert len(tio.TFRecordDataset(path)) == 3


def use_selection(path: str) -> None:
    dataset = tio.TFRecordDataset(path, SCHEMA, batch_size=2)
    assert len(dataset.where(lambda batch: batch["id"] < 2, features=["id"], cache_key="few")) == 1


def use_lengths(path: str) -> None:
    tokens = {"tokens": tio.VarLenFeature("int64")}
    assert len(list(tio.TFRecordDataset(path, tokens, batch_tokens=4, length_key="tokens"))) > 0


SCHEMA = {"id": tio.FixedLenFeature([], "int64")}
USES = {".tfidx": use_index, ".tfpass": use_selection, ".tflen": use_lengths}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "user" / "cache"
    monkeypatch.setenv("TORCHREC_IO_CACHE", str(folder))
    return folder


@pytest.fixture
def data(tmp_path: Path) -> str:
    records = [tio.encode_example({"id": n, "tokens": [n]}) for n in range(3)]
    return str(write_tfrecord(tmp_path / "x.tfrecord", records))


@pytest.mark.parametrize(("suffix", "mask"), [*zip(USES, [0, 0o022, 0o077], strict=True)])
def test_only_this_user_can_write_the_cache(cache: Path, data: str, suffix: str, mask: int) -> None:
    with umask(mask):
        USES[suffix](data)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    files = [path for path in cache.iterdir() if path.suffix == suffix]
    assert files
    for path in cache.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def foreign(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(path, 65534, 65534)


@pytest.mark.parametrize(
    ("suffix", "spoil"),
    [
        (".tfidx", foreign),
        (".tfpass", lambda path: path.chmod(0o620)),
        (".tflen", lambda path: path.chmod(0o602)),
    ],
)
def test_files_that_others_can_write_are_ignored(
    cache: Path, data: str, caplog: Any, suffix: str, spoil: Callable[[Path], None]
) -> None:
    USES[suffix](data)
    [path] = [path for path in cache.iterdir() if path.suffix == suffix]
    before = path.stat()
    caplog.clear()
    USES[suffix](data)
    assert path.stat().st_ino == before.st_ino
    spoil(path)
    USES[suffix](data)
    assert f"files of the cache {cache} are ignored, because" in caplog.text
    assert path.stat().st_ino != before.st_ino  # made again
    assert is_own_cache_file(path)
