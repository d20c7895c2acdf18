"""The folder of a cache: its bound, which blocks are removed first, claims, killed processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torchrec_io.storage.cache import folder as folder_module
from torchrec_io.storage.cache.folder import CacheFolder, CacheFullError

SIZE = 10_000
# A file takes three pages and its entry.
EACH = 3 * 4096 + 256
ROOM_FOR_FIVE = 4 * 4096 + 5 * EACH
CONTEXT = multiprocessing.get_context("fork")


def name_of(number: int) -> str:
    return f"{7:032x}-{number:x}"


def data_of(number: int) -> memoryview:
    return memoryview(np.random.default_rng(number).bytes(SIZE))


def add(folder: CacheFolder, number: int) -> None:
    claim = folder.claim(name_of(number), SIZE)
    assert claim is not None
    claim.publish(data_of(number))


def has(folder: CacheFolder, number: int) -> bool:
    block = folder.open(name_of(number), SIZE)
    if block is None:
        return False
    out = np.zeros(SIZE, np.uint8)
    if not block.read(out):  # it is being removed
        return False
    assert out.tobytes() == data_of(number)
    return True


def age(folder: CacheFolder, number: int, seconds: int) -> None:
    before = time.time() - seconds
    os.utime(folder.block_path(name_of(number)), (before, before))


def start(work: Callable[[], object]) -> threading.Thread:
    """Do something in a thread; return once it is done, or waits for this one."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(0.3)
    return thread


def expect_all_counted(folder: CacheFolder) -> None:
    with folder.locked() as state:
        assert folder._count(state) <= state.used <= ROOM_FOR_FIVE


def disk_bytes(path: Path) -> int:
    """Return what the file system counts."""
    total = path.stat().st_blocks * 512
    for file in path.iterdir():
        with contextlib.suppress(FileNotFoundError):
            total += file.stat().st_blocks * 512
    return total


def test_a_block_is_found_by_others(tmp_path: Path) -> None:
    add(CacheFolder(str(tmp_path / "c"), ROOM_FOR_FIVE), 1)
    other = CacheFolder(str(tmp_path / "c"), ROOM_FOR_FIVE)
    assert has(other, 1)
    assert not has(other, 2)
    assert other.claim(name_of(1), SIZE) is None


def test_the_folder_is_for_this_user_alone(tmp_path: Path) -> None:
    add(CacheFolder(str(tmp_path / "c"), ROOM_FOR_FIVE), 1)
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o700
    assert all(not path.stat().st_mode & 0o077 for path in (tmp_path / "c").iterdir())


def test_a_folder_of_a_group_has_files_of_the_group(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c").chmod(0o770)
    add(CacheFolder(str(tmp_path / "c"), ROOM_FOR_FIVE), 1)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "c").iterdir()}
    assert modes == {0o660}


def test_blocks_that_were_not_used_for_longest_are_removed(tmp_path: Path) -> None:
    folder = CacheFolder(str(tmp_path), ROOM_FOR_FIVE)
    for number in range(5):
        add(folder, number)
        age(folder, number, 100 - number)
    used = folder.open(name_of(0), SIZE)
    assert used is not None
    used.touch(0.0)
    for number in (5, 6):
        add(folder, number)
    assert [number for number in range(7) if has(folder, number)] == [0, 3, 4, 5, 6]


def test_a_block_that_is_open_takes_no_space_once_it_is_removed(tmp_path: Path) -> None:
    folder = CacheFolder(str(tmp_path), ROOM_FOR_FIVE)
    add(folder, 0)
    age(folder, 0, 100)
    block = folder.open(name_of(0), SIZE)
    assert block is not None
    for number in range(1, 6):
        add(folder, number)
    assert os.fstat(block._descriptor).st_blocks == 0
    assert not block.read(np.zeros(SIZE, np.uint8))


def test_a_smaller_bound_is_kept_by_the_next_block(tmp_path: Path) -> None:
    large = CacheFolder(str(tmp_path), 20 * EACH)
    for number in range(10):
        add(large, number)
    small = CacheFolder(str(tmp_path), ROOM_FOR_FIVE)
    add(small, 10)
    assert disk_bytes(tmp_path) <= ROOM_FOR_FIVE
    assert small.bound() == ROOM_FOR_FIVE


def test_other_files_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    folder = CacheFolder(str(tmp_path), ROOM_FOR_FIVE)
    for number in range(9):
        add(folder, number)
    folder.clear()
    assert not list(folder.files())
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_blocks_that_are_written_are_not_removed(tmp_path: Path) -> None:
    folder = CacheFolder(str(tmp_path), ROOM_FOR_FIVE)
    claims = [folder.claim(name_of(number), SIZE) for number in range(5)]
    with pytest.raises(CacheFullError):
        folder.claim(name_of(5), SIZE)
    folder.clear()
    for number, claim in enumerate(claims):
        assert claim is not None
        claim.publish(data_of(number))
    assert all(has(folder, number) for number in range(5))
    add(folder, 5)


# ---- claims ----


def test_one_process_has_a_claim(tmp_path: Path) -> None:
    folder, other = (CacheFolder(str(tmp_path), ROOM_FOR_FIVE) for _ in range(2))
    claim = folder.claim(name_of(1), SIZE)
    assert claim is not None
    assert other.claim(name_of(1), SIZE) is None
    assert other.claim(name_of(2), SIZE) is not None
    claim.abandon()
    add(other, 1)


def hold_claim(path: str, holds: Any) -> None:
    claim = CacheFolder(path, ROOM_FOR_FIVE).claim(name_of(1), SIZE)
    assert claim is not None
    holds.send(True)
    time.sleep(60)


def test_the_claim_of_a_killed_process_is_free(tmp_path: Path) -> None:
    receiver, sender = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=hold_claim, args=(str(tmp_path), sender))
    process.start()
    folder = CacheFolder(str(tmp_path), ROOM_FOR_FIVE)
    try:
        assert receiver.poll(30)
        assert folder.claim(name_of(1), SIZE) is None
    finally:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    for number in (1, 2, 3, 4, 5):  # its file counts once
        add(folder, number)
    assert all(has(folder, number) for number in (1, 2, 3, 4, 5))


def test_a_file_that_a_killed_process_left_is_removed_first(tmp_path: Path) -> None:
    folder = CacheFolder(str(tmp_path), ROOM_FOR_FIVE)
    for number in range(5):
        add(folder, number)
    os.rename(folder.block_path(name_of(4)), folder.part_path(name_of(9)))
    add(folder, 5)
    assert all(has(folder, number) for number in (0, 1, 2, 3, 5))
    assert not os.path.exists(folder.part_path(name_of(9)))


def test_a_block_that_is_published_meanwhile_is_not_claimed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = (CacheFolder(str(tmp_path), ROOM_FOR_FIVE) for _ in range(2))
    claim = folder.claim(name_of(1), SIZE)
    assert claim is not None
    threads: list[threading.Thread] = []
    lock = folder_module._try_lock

    def publish_and_lock(descriptor: int) -> bool:
        if os.fstat(descriptor).st_size > SIZE and not threads:  # not the state
            threads.append(start(lambda: claim.publish(data_of(1))))
        return lock(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "_try_lock", publish_and_lock)
        assert other.claim(name_of(1), SIZE) is None
        threads[0].join()
    assert has(other, 1)
    expect_all_counted(other)


def test_a_file_that_has_lost_its_name_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = CacheFolder(str(tmp_path), ROOM_FOR_FIVE)
    add(folder, 1)
    lock = folder_module._try_lock

    def remove_and_lock(descriptor: int) -> bool:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(folder.part_path(name_of(2)))
        return lock(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "_try_lock", remove_and_lock)
        assert folder.claim(name_of(2), SIZE) is None
    add(folder, 2)
    assert has(folder, 2)


def test_a_block_that_is_published_while_files_are_counted_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = (CacheFolder(str(tmp_path), ROOM_FOR_FIVE) for _ in range(2))
    claim = folder.claim(name_of(0), SIZE)
    assert claim is not None
    for number in range(1, 5):
        add(folder, number)
    threads: list[threading.Thread] = []
    scandir = os.scandir

    def list_and_publish(path: str) -> Any:
        entries = list(scandir(path))
        if not threads:
            threads.append(start(lambda: claim.publish(data_of(0))))
        return contextlib.nullcontext(entries)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", list_and_publish)
        add(other, 5)
        threads[0].join()
    assert has(other, 0)
    expect_all_counted(other)


def test_a_claim_that_is_given_up_while_files_are_counted_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = (CacheFolder(str(tmp_path), ROOM_FOR_FIVE) for _ in range(2))
    for number in range(4):
        add(folder, number)
    claim = folder.claim(name_of(9), SIZE)
    assert claim is not None
    threads: list[threading.Thread] = []
    unlink = os.unlink

    def add_two() -> None:
        add(other, 5)
        add(other, 6)

    def unlink_and_add(path: str) -> None:
        unlink(path)
        if path.endswith(".part"):
            threads.append(start(add_two))

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink_and_add)
        claim.abandon()
        threads[0].join()
    expect_all_counted(other)


def test_who_counts_for_long_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "_SECONDS_TO_LOCK", 0.4)
    monkeypatch.setattr(folder_module, "_SECONDS_TO_SHOW", 0.05)
    folder, other = (CacheFolder(str(tmp_path), ROOM_FOR_FIVE) for _ in range(2))
    with folder.locked() as state:
        thread = start(lambda: add(other, 1))
        for _ in range(20):
            time.sleep(0.05)
            state.show()
    thread.join()
    assert has(other, 1)
    with folder.locked(), pytest.raises(TimeoutError, match="the cache stays locked"):
        add(other, 2)


def test_blocks_that_cannot_be_removed_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "_MOST_REMOVED", 1)
    folder = CacheFolder(str(tmp_path), ROOM_FOR_FIVE)
    for number in range(5):
        add(folder, number)
        age(folder, number, 100 - number)
    remove = CacheFolder._remove
    kept = {f"{name_of(number)}.block" for number in (0, 1)}
    monkeypatch.setattr(
        CacheFolder, "_remove", lambda self, file: file.name not in kept and remove(self, file)
    )
    add(folder, 5)
    add(folder, 6)
    assert [number for number in range(7) if has(folder, number)] == [0, 1, 4, 5, 6]
    expect_all_counted(folder)


def test_a_child_does_not_keep_a_claim(tmp_path: Path) -> None:
    folder = CacheFolder(str(tmp_path), ROOM_FOR_FIVE)
    claim = folder.claim(name_of(1), SIZE)
    assert claim is not None
    process = CONTEXT.Process(target=time.sleep, args=(60,))
    process.start()  # it has the descriptor, too
    try:
        claim.abandon()
        add(folder, 1)
    finally:
        process.kill()
        process.join()


# ---- many processes ----


def write_at_random(path: str, seed: int) -> None:
    folder = CacheFolder(path, ROOM_FOR_FIVE)
    for number in np.random.default_rng(seed).integers(0, 30, 150).tolist():
        try:
            claim = folder.claim(name_of(number), SIZE)
        except CacheFullError:
            continue
        if claim is not None and number % 5 == 4:
            claim.abandon()
        elif claim is not None:
            claim.publish(data_of(number))


def test_the_bound_holds_while_processes_write_and_are_killed(tmp_path: Path) -> None:
    folder = CacheFolder(str(tmp_path), ROOM_FOR_FIVE)
    add(folder, 0)
    processes = [
        CONTEXT.Process(target=write_at_random, args=(str(tmp_path), seed)) for seed in range(4)
    ]
    for process in processes:
        process.start()
    measured, checks = 0, 0
    random = np.random.default_rng(9)
    while any(process.is_alive() for process in processes):
        with folder.locked() as state:  # else files that come and go meanwhile are both counted
            measured = max(measured, disk_bytes(tmp_path))
            assert folder._count(state) <= state.used <= ROOM_FOR_FIVE
        checks += has(folder, int(random.integers(0, 30)))
        if checks == 20:
            processes[0].kill()
    for process in processes:
        process.join()
    assert 0 < measured <= ROOM_FOR_FIVE
    assert [process.exitcode for process in processes[1:]] == [0, 0, 0]
    for number in range(30, 35):
        add(folder, number)
    assert disk_bytes(tmp_path) <= ROOM_FOR_FIVE


# ---- damage, and other users ----


@pytest.mark.parametrize("at", [0, 5000, SIZE - 1, SIZE, SIZE + 13, -1])
def test_damage_is_found(tmp_path: Path, at: int) -> None:
    folder = CacheFolder(str(tmp_path), ROOM_FOR_FIVE)
    add(folder, 1)
    path = Path(folder.block_path(name_of(1)))
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    block = folder.open(name_of(1), SIZE)
    assert block is None or not block.read(np.zeros(SIZE, np.uint8))


@pytest.mark.parametrize("size", [0, 100, SIZE, SIZE + 20, 30_000])
def test_wrong_sizes_are_found(tmp_path: Path, size: int) -> None:
    folder = CacheFolder(str(tmp_path), ROOM_FOR_FIVE)
    add(folder, 1)
    os.truncate(folder.block_path(name_of(1)), size)
    assert folder.open(name_of(1), SIZE) is None
    add(folder, 1)
    assert has(folder, 1)


def test_a_block_under_another_name_is_not_used(tmp_path: Path) -> None:
    folder = CacheFolder(str(tmp_path), ROOM_FOR_FIVE)
    add(folder, 1)
    os.rename(folder.block_path(name_of(1)), folder.block_path(name_of(2)))
    assert folder.open(name_of(2), SIZE) is None


@pytest.mark.parametrize(("mode", "is_used"), [(0o755, True), (0o770, True), (0o777, False)])
def test_blocks_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_used: bool
) -> None:
    """They are used where only users that were given access can write."""
    folder = CacheFolder(str(tmp_path / "c"), ROOM_FOR_FIVE)
    add(folder, 1)
    (tmp_path / "c").chmod(mode)
    if os.geteuid() == 0:
        os.chown(folder.block_path(name_of(1)), 65534, 65534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert has(folder, 1) is is_used


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    folder = CacheFolder(str(tmp_path / "c"), ROOM_FOR_FIVE)
    add(folder, 1)
    target = tmp_path / "target"
    os.rename(folder.block_path(name_of(1)), target)
    os.symlink(target, folder.block_path(name_of(1)))
    assert folder.open(name_of(1), SIZE) is None
    os.symlink(target, folder.part_path(name_of(2)))
    with pytest.raises(OSError, match="symbolic"):
        folder.claim(name_of(2), SIZE)
    assert target.exists()
