"""The epoch of the next iteration, which advances when an iteration reaches its end."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .. import _core

# Number of int64 values of a clock.
CLOCK_NUMBERS = 4
_EPOCH, _WORD, _STARTED, _INSIDE = range(CLOCK_NUMBERS)

# Bits of the word.
_PASSED_BITS = 26
_ENDED_BITS = 11
_NUMBER_BITS = 24
_ITERATION_SHIFT = _PASSED_BITS + _ENDED_BITS

# Kinds of iterations: of this process, and of workers.
_OWN, _OF_WORKERS = range(2)
# Number that no iteration has. It stands between iterations, if the epoch was not set.
_BETWEEN = (1 << (_NUMBER_BITS + 2)) - 1


class EpochClock:
    """Epoch with which the next iteration starts, in memory shared with DataLoader workers.

    An iteration that reaches its end moves the clock to the epoch after its last one, unless the
    epoch was set in the meantime, or another iteration has moved the clock. An iteration in workers
    reaches its end when all of them do, and another one that starts takes its place.

    All workers of an iteration must start with the same epoch, while workers of an iteration that
    was left early may still run and reach its end. So the latest iteration, the number of its
    workers that have ended and the number of epochs that have passed are one word, which is
    exchanged atomically.

    Args:
        numbers: int64 ``[CLOCK_NUMBERS]`` in shared memory, initially zeros.
    """

    def __init__(self, numbers: torch.Tensor) -> None:
        self._numbers = numbers.numpy()
        self._word = self._numbers[_WORD : _WORD + 1]

    @property
    def epoch(self) -> int:
        """Epoch with which the next iteration starts."""
        return int(self._numbers[_EPOCH]) + _passed_of(int(self._word[0]))

    def set(self, epoch: int) -> None:
        """Set the epoch. Iterations in workers that have started no longer move the clock."""
        self._exchange(lambda _: 0)
        self._numbers[_EPOCH] = epoch

    def new_iteration(self) -> int:
        """Return the number of a new iteration of this process."""
        self._numbers[_STARTED] += 1
        return _number(_OWN, int(self._numbers[_STARTED]))

    def begin(self, iteration: int) -> tuple[int, bool]:
        """Begin an iteration in this process.

        Returns:
            The epoch with which it starts, and whether it follows another one without a call of
            :meth:`set`. The second is True in only one of its workers.
        """
        before, after = self._exchange(
            lambda word: (
                word if _iteration_of(word) == iteration else _pack(iteration, 0, _passed_of(word))
            )
        )
        follows = before not in (after, 0)
        return int(self._numbers[_EPOCH]) + _passed_of(after), follows

    def move(self, epoch: int, next_epoch: int) -> None:
        """Move to the next epoch at the end of an iteration of this process.

        Several may run at once. The first one to end moves the clock.

        Args:
            epoch: Epoch of the clock when the iteration began.
            next_epoch: Epoch after its last one.
        """
        first = int(self._numbers[_EPOCH])
        ended = _pack(_BETWEEN, 0, next_epoch - first)
        self._exchange(lambda word: ended if _passed_of(word) == epoch - first else word)

    def repeat_epoch(self, epoch: int, next_epoch: int) -> None:
        """Return from an epoch to the one before, if nothing has happened since the end of that."""
        first = int(self._numbers[_EPOCH])
        ended = _pack(_BETWEEN, 0, next_epoch - first)
        before = _pack(_BETWEEN, 0, epoch - first)
        self._exchange(lambda word: before if word == ended else word)

    # ---- iterations in workers ----

    def end(self, iteration: int, num_workers: int, next_epoch: int) -> None:
        """Count this worker, in which an iteration has reached its end.

        Args:
            iteration: Number of the iteration.
            num_workers: Number of workers, which must all reach the end.
            next_epoch: Epoch after its last one.
        """
        passed = next_epoch - int(self._numbers[_EPOCH])

        def ended(word: int) -> int:
            if _iteration_of(word) != iteration:
                return word
            count = _ended_of(word) + 1
            if count < num_workers:
                return _pack(iteration, count, _passed_of(word))
            return _pack(_BETWEEN, 0, passed)

        self._exchange(ended)

    def restart(self, iteration: int, epoch: int, *, is_at_end: bool) -> None:
        """Begin an iteration where its workers loaded states. Each of them calls this once.

        Args:
            iteration: Number of the iteration.
            epoch: First epoch of the states.
            is_at_end: Whether the state of this worker is at the end of the iteration.
        """
        if _iteration_of(int(self._word[0])) != iteration:
            self._numbers[_EPOCH] = epoch  # all workers write the same number
            self._exchange(
                lambda word: word if _iteration_of(word) == iteration else _pack(iteration)
            )
        if not is_at_end:
            self._numbers[_INSIDE] = iteration

    def has_passed(self, iteration: int, epoch: int) -> bool:
        """Return whether all workers of an iteration loaded states at its end, in an epoch."""
        return int(self._numbers[_INSIDE]) != iteration and self.epoch > epoch

    def _exchange(self, change: Callable[[int], int]) -> tuple[int, int]:
        """Change the word atomically; return it before and after."""
        while True:
            before = int(self._word[0])
            after = change(before)
            if before == after or _core.compare_exchange(self._word, before, after):
                return before, after


def worker_iteration(seed: int, worker: int, times: int) -> int:
    """Return the number of an iteration in workers. It is the same in all of its workers.

    DataLoader draws a seed when it starts its workers, and adds the number of each worker to it.

    Args:
        seed: Seed of the worker, from ``torch.utils.data.get_worker_info()``.
        worker: Number of the worker.
        times: Number of iterations that this worker began before; with ``persistent_workers``,
            there are several.
    """
    return _number(_OF_WORKERS, seed - worker + times)


def _number(kind: int, number: int) -> int:
    return kind << _NUMBER_BITS | number % (1 << _NUMBER_BITS)


def _pack(iteration: int, ended: int = 0, passed: int = 0) -> int:
    return iteration << _ITERATION_SHIFT | ended << _PASSED_BITS | passed


def _passed_of(word: int) -> int:
    return word & ((1 << _PASSED_BITS) - 1)


def _ended_of(word: int) -> int:
    return word >> _PASSED_BITS & ((1 << _ENDED_BITS) - 1)


def _iteration_of(word: int) -> int:
    return word >> _ITERATION_SHIFT
