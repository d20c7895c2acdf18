"""The time limit of an attempt that makes no progress."""

import asyncio

import pytest

from torchrec_io.storage.remote.deadline import Deadline


def test_a_block_without_progress_ends() -> None:
    async def wait() -> None:
        with Deadline(0.05):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        asyncio.run(wait())


def test_progress_starts_the_time_again() -> None:
    async def wait() -> int:
        steps = 0
        with Deadline(0.5) as deadline:
            for _ in range(12):
                await asyncio.sleep(0.1)
                deadline.extend()
                steps += 1
        return steps

    assert asyncio.run(wait()) == 12


def test_the_task_continues_after_its_deadline() -> None:
    async def wait() -> str:
        with pytest.raises(TimeoutError), Deadline(0.01):
            await asyncio.Event().wait()
        await asyncio.sleep(0)  # no cancellation is left
        with Deadline(5):
            await asyncio.sleep(0.02)
        return "done"

    assert asyncio.run(wait()) == "done"


def test_a_cancelled_task_stays_cancelled() -> None:
    async def wait() -> None:
        with Deadline(5):
            await asyncio.Event().wait()

    async def cancel() -> bool:
        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(cancel())


def test_errors_of_the_block_pass() -> None:
    async def fail() -> None:
        with Deadline(5):
            raise KeyError("reason")

    with pytest.raises(KeyError, match="reason"):
        asyncio.run(fail())
