"""The folder of a cache: its bound, which blocks are removed first, killed processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from torchrec_io._storage.byte_source import ByteBuffer
from torchrec_io._storage.cache.folder import CacheFolder
from torchrec_io._storage.cache.stored_chunks import StoredChunks

SIZE = 10_000
# A file takes three pages and its entry.
EACH = 3 * 4096 + 256
ROOM_FOR_FIVE = 4 * 4096 + 5 * EACH + EACH // 2
CONTEXT = multiprocessing.get_context("fork")


@pytest.fixture
def folder(tmp_path: Path) -> CacheFolder:
    """Return a folder with room for five blocks."""
    return CacheFolder(str(tmp_path / "c"), ROOM_FOR_FIVE)


def name_of(number: int) -> str:
    return f"{7:032x}-{number:x}"


def data_of(number: int) -> ByteBuffer:
    return np.random.default_rng(number).integers(0, 256, SIZE, np.uint8)


def add(folder: CacheFolder, *numbers: int) -> None:
    """Add blocks, each of which is older than those after it."""
    for number in numbers:
        folder.store(name_of(number), data_of(number))
        with contextlib.suppress(FileNotFoundError):
            os.utime(folder.block_path(name_of(number)), (number, number))


def load(folder: CacheFolder, number: int) -> ByteBuffer | None:
    return StoredChunks(folder, f"{7:032x}").load(number, SIZE)


def found(folder: CacheFolder) -> list[int]:
    """Return the numbers of the blocks that the cache has."""
    numbers = []
    for number in range(40):
        if (data := load(folder, number)) is not None:
            assert data.tobytes() == data_of(number).tobytes()
            numbers.append(number)
    return numbers


def disk_bytes(folder: CacheFolder) -> int:
    """Return what the file system counts."""
    total = os.stat(folder.path).st_blocks * 512
    for file in os.scandir(folder.path):
        with contextlib.suppress(FileNotFoundError):
            total += file.stat().st_blocks * 512
    return total


# ---- users ----


@pytest.mark.parametrize(("mode", "expected"), [(None, 0o600), (0o770, 0o660)])
def test_files_are_for_those_who_may_use_the_folder(
    folder: CacheFolder, mode: int | None, expected: int
) -> None:
    if mode is not None:
        os.mkdir(folder.path)
        os.chmod(folder.path, mode)
    add(folder, 1)
    assert stat.S_IMODE(os.stat(folder.path).st_mode) == (mode or 0o700)
    modes = {stat.S_IMODE(file.stat().st_mode) for file in os.scandir(folder.path)}
    assert modes == {expected}


@pytest.mark.parametrize(("mode", "is_used"), [(0o755, True), (0o770, True), (0o777, False)])
def test_blocks_of_another_user(
    folder: CacheFolder, monkeypatch: pytest.MonkeyPatch, mode: int, *, is_used: bool
) -> None:
    """They are used where only users that were given access can write."""
    add(folder, 1)
    os.chmod(folder.path, mode)
    if os.geteuid() == 0:
        os.chown(folder.block_path(name_of(1)), 65534, 65534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert found(folder) == [1] * is_used


# ---- the bound ----


def test_blocks_that_were_not_used_for_longest_are_removed(folder: CacheFolder) -> None:
    add(folder, 0, 1, 2, 3, 4)
    assert load(folder, 0) is not None
    add(folder, 5, 6)
    assert found(folder) == [0, 3, 4, 5, 6]


def test_a_smaller_bound_is_kept_by_the_next_block(folder: CacheFolder) -> None:
    add(CacheFolder(folder.path, 20 * EACH), *range(10))
    add(folder, 10)
    assert found(folder) == [6, 7, 8, 9, 10]
    assert disk_bytes(folder) <= ROOM_FOR_FIVE == folder.summary().max_bytes


def test_other_files_stay(folder: CacheFolder) -> None:
    add(folder, 0)
    notes = Path(folder.path, "notes.txt")
    notes.write_text("mine")
    add(folder, *range(1, 9))
    folder.clear()
    assert not list(folder.files())
    assert notes.read_text() == "mine"


def test_a_block_that_is_larger_than_the_cache(folder: CacheFolder) -> None:
    add(folder, 0, 1)
    folder.store(name_of(2), np.zeros(10 * SIZE, np.uint8))
    assert found(folder) == [0, 1]


# ---- several processes ----


def write_at_random(folder: CacheFolder, seed: int) -> None:
    for number in np.random.default_rng(seed).integers(0, 30, 150).tolist():
        folder.store(name_of(number), data_of(number))


def test_the_bound_holds_while_processes_write_and_are_killed(folder: CacheFolder) -> None:
    add(folder, 0)
    processes = [CONTEXT.Process(target=write_at_random, args=(folder, seed)) for seed in range(4)]
    for process in processes:
        process.start()
    for check in range(10_000):
        if not any(process.is_alive() for process in processes):
            break
        with folder.locked():  # else files that come and go meanwhile are both counted
            assert disk_bytes(folder) <= ROOM_FOR_FIVE
        if check == 20:
            processes[0].kill()
        found(folder)
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes[1:]] == [0, 0, 0]
    add(folder, 30)
    assert 30 in found(folder)
    assert disk_bytes(folder) <= ROOM_FOR_FIVE
