"""To a GPU: page-locked memory, and copies that run while the batch before computes."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sized
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from .batch import allocate_arena


def can_pin() -> bool:
    """Whether memory can be page-locked here: there is CUDA, and this is no DataLoader worker."""
    if get_worker_info() is not None or torch.cuda._is_in_bad_fork():  # noqa: SLF001
        return False
    return torch.cuda.is_available()


def allocate_pinned(size: int) -> Tensor:
    """A new arena in page-locked memory; in plain memory where that cannot be."""
    if not can_pin():
        return allocate_arena(size)
    return torch.empty(size, dtype=torch.uint8, pin_memory=True)


def pin_memory(data: Any) -> Any:
    """Data in page-locked memory, from which GPUs copy in background.

    Args:
        data: A Batch, Ragged, BytesArray, Sparse or Tensor, anything else with a ``pin_memory``
            method, or dicts, lists and tuples of those, nested at will. What else is in it stays as
            it is, and so does what is on a device or page-locked.

    Returns:
        The same in page-locked memory, in containers of the same types. ``data`` itself where there
        is none: without CUDA, and in DataLoader workers.
    """
    return _changed(data, "pin_memory", _pinned) if can_pin() else data


def move(data: Any, device: torch.device) -> Any:
    """Data on a device: all in it that has a method ``to``, as :func:`pin_memory` finds it."""
    return _changed(data, "to", lambda part: part.to(device, non_blocking=True))


def _pinned(part: Any) -> Any:
    device = getattr(part, "device", None)
    return part if device is not None and device.type != "cpu" else part.pin_memory()


def _changed(data: Any, method: str, change: Callable[[Any], Any]) -> Any:
    """Data with all in it changed that has a method."""
    if callable(getattr(data, method, None)):
        return change(data)
    if isinstance(data, Mapping):
        values = {key: _changed(value, method, change) for key, value in data.items()}
        if not isinstance(data, MutableMapping):
            return type(data)(values)  # type: ignore[call-arg]
        changed = copy.copy(data)  # a Sample stays one
        changed.update(values)
        return changed
    if isinstance(data, (list, tuple)):
        parts = [_changed(part, method, change) for part in data]
        return type(data)(*parts) if hasattr(data, "_fields") else type(data)(parts)
    return data


class DevicePrefetcher:
    """What a loader gives, on a device, copied there while the batch before is computed with.

    On CUDA, batches are page-locked (if the loader did not), copied on a stream of their own, and
    handed to the stream that is current where they are asked for: use them as any tensor. No thread
    is needed. On the CPU the loader's batches are given as they are; for other devices they are
    copied when asked for.

    Batches are whatever the loader gives: Batches, tensors, ``(keys, Batch)``, dicts, samples; all
    in them that has a method ``to`` is moved. It can be iterated again and again. If the loader
    raises, the batches before come first. A loop that is left early leaves nothing behind.

    Attributes:
        loader: A DataLoader, a dataset that makes batches, or any iterable.
        device: Where batches go.
        depth: Batches that are copied ahead; the device holds one more.

    Raises:
        ValueError: ``depth`` is less than 1.
        RuntimeError: there is no such CUDA device.
    """

    def __init__(
        self, loader: Iterable[Any], device: torch.device | str | int, depth: int = 2
    ) -> None:
        if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
            raise ValueError(f"depth must be a whole number of at least 1, not {depth!r}")
        self.loader = loader
        self.device = checked_device(device)
        self.depth = depth
        # The loader's state when it gave the batch that was handed out last, if it is ahead of
        # that; or why there is none.
        self._state: Any = None
        # The iteration that says so: the last one, until it is told of another place to be at.
        self._turn: object = None

    def __len__(self) -> int:
        """Batches, as the loader says.

        Raises:
            TypeError: the loader has no length.
        """
        return len(cast("Sized", self.loader))

    def set_epoch(self, epoch: int) -> None:
        """Tells the loader, its dataset or its sampler which epoch comes next.

        Raises:
            TypeError: none of them has epochs.
        """
        teller = self._part_with("set_epoch", "dataset", "sampler")
        if self._state is None:
            teller.set_epoch(epoch)
            return
        # Of a loop that was left. Its place counts until the loader says something else.
        before = self._state_now()
        teller.set_epoch(epoch)
        if self._state_now() != before:
            self._state = self._turn = None

    # ---- saving and resuming ----

    def state_dict(self) -> dict[str, Any]:
        """The state of the loader, or its dataset, as of the batch that was handed out last.

        The loader itself is up to ``depth`` batches ahead of that.

        Raises:
            TypeError: neither has states.
            RuntimeError: only DataLoader workers know; see docs/resuming.md.
        """
        if self._state is None:
            state: dict[str, Any] = self._keeper.state_dict()
            return state
        if isinstance(self._state, Exception):
            raise self._state
        return dict(self._state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Has the next iteration go on where a state was taken.

        Raises:
            TypeError: neither the loader nor its dataset has states.
            StateMismatchError: as the dataset's.
        """
        self._keeper.load_state_dict(state)
        self._state = self._turn = None

    def _state_now(self) -> Any:
        try:
            return self._keeper.state_dict()
        except (RuntimeError, TypeError) as error:  # told to who asks for a state
            return error.with_traceback(None)

    @property
    def _keeper(self) -> Any:
        return self._part_with("state_dict", "dataset")

    def _part_with(self, method: str, *names: str) -> Any:
        """The loader, or what of it has a method."""
        for part in (self.loader, *(getattr(self.loader, name, None) for name in names)):
            if callable(getattr(part, method, None)):
                return part
        raise TypeError(f"there is no {method} of {self.loader!r}")

    # ---- iterating ----

    def __iter__(self) -> Iterator[Any]:
        source = iter(self.loader)
        self._state = self._turn = None
        if self.device.type == "cpu":
            return source
        if self.device.type != "cuda":
            return (move(item, self.device) for item in source)
        self._state = self._state_now()
        self._turn = object()
        return self._ahead(source, self._turn)

    def _ahead(self, source: Iterator[Any], turn: object) -> Iterator[Any]:
        copies = _Copies(self.device)
        waiting: deque[tuple[_Copy, Any]] = deque()
        failure: Exception | None = None
        ended = False
        try:
            while True:
                while not ended and len(waiting) <= self.depth:
                    try:
                        item = next(source)
                    except StopIteration:
                        ended = True
                    except Exception as error:  # noqa: BLE001  # comes behind the batches before it
                        failure, ended = error, True
                    else:
                        waiting.append((copies.start(item), self._state_now()))
                        del item
                if not waiting:
                    break
                copied, state = waiting.popleft()
                if self._turn is turn:
                    self._state = state
                given = copies.finish(copied)
                del copied
                yield given
                del given
            if self._turn is turn:
                self._state = None
            if failure is not None:
                raise failure
        finally:
            copies.close(copied for copied, _ in waiting)
            waiting.clear()
            # The failure's traceback leads to this frame.
            del source, failure


class _Copy(NamedTuple):
    """Data on its way to a device.

    Attributes:
        source: It is copied from; page-locked.
        data: On the device.
        done: An event of the side stream, after the copy.
    """

    source: Any
    data: Any
    done: Any


class _Copies:
    """Copies to a CUDA device on a stream of their own."""

    def __init__(self, device: torch.device) -> None:
        index = torch.cuda.current_device() if device.index is None else device.index
        self._device = torch.device("cuda", index)
        self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        self._handed_out: deque[_Copy] = deque()  # without data; copies that may be still running

    def start(self, data: Any) -> _Copy:
        """Begins to copy."""
        source = pin_memory(data)
        with torch.cuda.stream(self._stream):
            moved = move(source, self._device)
            done = self._stream.record_event()
        return _Copy(source, moved, done)

    def finish(self, copied: _Copy) -> Any:
        """The data; what is computed with it on the current stream waits until it is there."""
        current = torch.cuda.current_stream(self._device)
        current.wait_event(copied.done)
        # Its memory is of the side stream, which must not have it back before this one is done.
        _changed(copied.data, "record_stream", lambda part: part.record_stream(current))
        # Page-locked memory may be of somebody who uses it again once it is let go of.
        self._handed_out.append(copied._replace(data=None))
        while self._handed_out and self._handed_out[0].done.query():
            self._handed_out.popleft()
        return copied.data

    def close(self, waiting: Iterable[_Copy]) -> None:
        """Waits for copies that are still running, so that what they read can be let go of."""
        for copied in (*self._handed_out, *waiting):
            copied.done.synchronize()
        self._handed_out.clear()


def checked_device(device: torch.device | str | int) -> torch.device:
    """A device by its name or number.

    Raises:
        RuntimeError: it is a CUDA device that is not there, or no device's name.
    """
    checked = torch.device(device)
    if checked.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            raise RuntimeError(f"device {str(checked)!r}: PyTorch finds no CUDA device here")
        if checked.index is not None and checked.index >= count:
            raise RuntimeError(f"device {str(checked)!r}: there are {count} CUDA devices")
    return checked
