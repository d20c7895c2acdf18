"""Page-locked memory, and a prefetcher that copies batches to a GPU during computation."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sized
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from ..checks import check_integer, counted
from ..timing.steps import copying
from .arena import allocate_arena
from .columns import Columns
from .sample import Sample

# Flag of cudaHostRegister: the memory is page-locked for all devices.
_PORTABLE = 1


def can_pin() -> bool:
    """Return whether memory can be page-locked: with CUDA, and not in a DataLoader worker."""
    if get_worker_info() is not None or torch.cuda._is_in_bad_fork():  # noqa: SLF001
        return False
    return torch.cuda.is_available()


def allocate_pinned(size: int) -> Tensor:
    """Allocate an arena in page-locked memory, or in ordinary memory where that is impossible."""
    if not can_pin():
        return allocate_arena(size)
    try:
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)
    except RuntimeError:  # too large to be page-locked
        return allocate_arena(size)


def lock_memory(memory: npt.NDArray[np.uint8]) -> bool:
    """Page-lock memory until it is freed; return whether that was possible.

    PyTorch does not know when copies from it end: keep it until then.

    Args:
        memory: uint8 ``[n]``, whole pages that this array alone keeps mapped.
    """
    address = memory.ctypes.data
    try:
        torch.cuda.check_error(_cudart().cudaHostRegister(address, memory.nbytes, _PORTABLE))
    except RuntimeError:
        _clear_error()
        return False
    # It runs before the array lets go of the pages. The end of the process unlocks them anyway.
    unlock = weakref.finalize(memory, _unlock, address, torch.cuda.current_device(), os.getpid())
    unlock.atexit = False
    return True


def _clear_error() -> None:
    """Let PyTorch report the last error of the CUDA runtime, which clears it, at a launch here."""
    with contextlib.suppress(RuntimeError):
        torch.ones(1, device="cuda")


def _unlock(address: int, device: int, pid: int) -> None:
    if pid == os.getpid():  # a forked child has no part in it
        with torch.cuda.device(device):  # another one would get a context, which takes memory
            _cudart().cudaHostUnregister(address)


def _cudart() -> Any:
    """Return the functions of the CUDA runtime that PyTorch shows."""
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def pinned_arenas(loader: Any) -> Iterator[None]:
    """Return a context in which a dataset starts iterations with batches in page-locked memory.

    Args:
        loader: A dataset, or a loader with a ``dataset``. It changes nothing for those of other
            packages, and for DataLoader workers.
    """
    session = getattr(loader, "_session", None)
    if session is None:
        session = getattr(getattr(loader, "dataset", None), "_session", None)
    if session is None:
        yield
        return
    before, session.allocate = session.allocate, allocate_pinned
    try:
        yield
    finally:
        session.allocate = before


def pin_memory(data: Any) -> Any:
    """Copy data to page-locked memory, from which GPUs copy in the background.

    Args:
        data: A Batch, Ragged, BytesArray, Sparse, Tensor or any other object with a ``pin_memory``
            method, or nested dicts, lists and tuples of these. Other objects are kept as they are,
            and so is data that is on a device or in page-locked memory.

    Returns:
        The data in page-locked memory, in containers of the same types. Without CUDA and in
        DataLoader workers, ``data`` itself.
    """
    return _map_parts(data, "pin_memory", _pinned) if can_pin() else data


def move(data: Any, device: torch.device) -> Any:
    """Copy all objects with a ``to`` method to a device, in nested dicts, lists and tuples."""
    return _map_parts(data, "to", lambda part: part.to(device, non_blocking=True))


def _decoded(item: Any) -> Any:
    """Decode the images of a batch that are encoded; return other items as they are."""
    batch = getattr(item, "batch", item)  # also of a batch with keys
    columns = getattr(batch, "columns", None)
    if not isinstance(columns, Columns) or not columns.form.images:
        return item
    decoded = batch.to("cpu")
    return decoded if batch is item else item._replace(batch=decoded)


def _pinned(part: Any) -> Any:
    device = getattr(part, "device", None)
    return part if device is not None and device.type != "cpu" else part.pin_memory()


def _map_parts(data: Any, method: str, change: Callable[[Any], Any]) -> Any:
    """Return data with ``change`` applied to each object that has the method."""
    if callable(getattr(data, method, None)):
        return change(data)
    if isinstance(data, Mapping):
        values = {key: _map_parts(value, method, change) for key, value in data.items()}
        if isinstance(data, Sample):
            return data.with_values(values)
        if not isinstance(data, MutableMapping):
            return type(data)(values)  # type: ignore[call-arg]
        changed = copy.copy(data)  # keeps the class and attributes
        changed.update(values)
        return changed
    if isinstance(data, (list, tuple)):
        parts = [_map_parts(part, method, change) for part in data]
        return type(data)(*parts) if hasattr(data, "_fields") else type(data)(parts)
    return data


class DevicePrefetcher:
    """Iterable that copies the batches of a loader to a device ahead of their use.

    On CUDA, datasets of this package make their batches in page-locked memory, unless DataLoader
    workers load. Other batches are copied to it. A batch is then copied to the device on a side
    stream. The stream that is current when a batch is yielded waits for the copy, so
    batches are used like any other Tensor. No thread is needed. On the CPU, the batches of the
    loader are yielded unchanged. For other devices, batches are copied when they are yielded.

    A batch is any item of the loader: a Batch, a Tensor, ``(keys, Batch)``, a dict or a sample. All
    objects in it that have a ``to`` method are copied. The prefetcher can be iterated repeatedly.
    If the loader raises an error, the batches before it are yielded first. A loop that is left
    early keeps no batches in memory.

    Args:
        loader: A DataLoader, a dataset that yields batches, or any other iterable.
        device: Target device.
        depth: Number of batches that are copied ahead. The device holds one more batch. Default: 2.

    Attributes:
        loader: The loader.
        device: The target device.
        depth: Number of batches that are copied ahead.

    Raises:
        ValueError: If ``depth`` is not a positive integer.
        RuntimeError: If the CUDA device does not exist.
    """

    def __init__(
        self, loader: Iterable[Any], device: torch.device | str | int, depth: int = 2
    ) -> None:
        self.depth: int = check_integer("depth", depth, 1)
        self.loader = loader
        self.device: torch.device = check_device(device)
        # Internal interface: whether datasets make their batches in page-locked memory; and whether
        # memory shared with workers is page-locked, because nobody else gets their batches.
        self.makes_pinned = True
        self.locks_slots = False
        # State of the loader when it yielded the last batch that was handed out, or the error why
        # it has no state. None if the loader is not ahead of that batch.
        self._state: Any = None
        # Iterations with this token update the state. Setting another position ends their updates.
        self._token = object()

    def __repr__(self) -> str:
        return f"DevicePrefetcher({self.loader!r}, device={str(self.device)!r}, depth={self.depth})"

    def __len__(self) -> int:
        """Return the number of batches of the loader.

        Raises:
            TypeError: If the loader has no length.
        """
        return len(cast("Sized", self.loader))

    def set_epoch(self, epoch: int) -> None:
        """Set the next epoch of the loader, its dataset or its sampler.

        Raises:
            TypeError: If none of them has a ``set_epoch`` method.
        """
        part = self._part_with("set_epoch", "dataset", "sampler")
        if self._state is None:
            part.set_epoch(epoch)
            return
        # The position of a loop that was left early is valid until the loader's state changes.
        before = self._state_now()
        part.set_epoch(epoch)
        if self._state_now() != before:
            self._drop_state()

    # ---- saving and resuming ----

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the loader or its dataset after the last batch that was yielded.

        The loader itself is up to ``depth`` batches ahead of that batch.

        Raises:
            TypeError: If neither has states.
            RuntimeError: If only the DataLoader workers know the state; see docs/resuming.md.
        """
        if self._state is None:
            state: dict[str, Any] = self._stateful.state_dict()
            return state
        if isinstance(self._state, Exception):
            raise self._state
        return dict(self._state)

    def load_state_dict(self, state: Mapping[str, Any], **options: Any) -> None:
        """Resume the next iteration from a saved state.

        Args:
            state: A result of :meth:`state_dict`.
            options: Keyword arguments of the method of the loader or its dataset.

        Raises:
            TypeError: If neither the loader nor its dataset has states.
            StateMismatchError: If the state does not match the dataset.
        """
        self._stateful.load_state_dict(state, **options)
        self._drop_state()

    def _drop_state(self) -> None:
        self._state = None
        self._token = object()

    def _state_now(self) -> Any:
        try:
            return self._stateful.state_dict()
        except (RuntimeError, TypeError) as error:  # raised by state_dict()
            return error.with_traceback(None)

    def _repeat_epoch(self) -> None:
        """Let the loader or its dataset start the epoch again, if it has reached its end."""
        for part in (self.loader, getattr(self.loader, "dataset", None)):
            owner: Any = getattr(part, "_session", part)
            if hasattr(owner, "repeat_epoch"):
                owner.repeat_epoch()
                return

    @property
    def _stateful(self) -> Any:
        return self._part_with("state_dict", "dataset")

    def _part_with(self, method: str, *names: str) -> Any:
        """Return the loader, or one of its attributes, that has a method."""
        for part in (self.loader, *(getattr(self.loader, name, None) for name in names)):
            if callable(getattr(part, method, None)):
                return part
        owners = " or ".join(("loader", *(f"loader.{name}" for name in names)))
        # That of its class: the repr of a list of batches takes longer than a training step.
        kind = type(self.loader).__name__
        raise TypeError(f"{owners} must have a {method} method, got {kind}")

    # ---- iteration ----

    def __iter__(self) -> Iterator[Any]:
        if self.device.type == "cpu":
            return map(_decoded, iter(self.loader))
        if self.device.type != "cuda":
            return (self._moved(item) for item in iter(self.loader))
        with self._arenas():
            source = iter(self.loader)
        if self._state is None:
            self._state = self._state_now()
        return self._ahead(source, self._token)

    def _arenas(self) -> AbstractContextManager[None]:
        return pinned_arenas(self.loader) if self.makes_pinned else nullcontext()

    def _moved(self, item: Any) -> Any:
        with copying():
            return move(item, self.device)

    def _ahead(self, source: Iterator[Any], token: object) -> Iterator[Any]:
        copies = _Copies(self.device, locks_slots=self.locks_slots)
        waiting: deque[tuple[Any, Any]] = deque()  # started copies, and states after them
        end: Exception | None = None  # StopIteration, or an error
        last = None  # state of the loader after its last batch
        try:
            while True:
                while end is None and len(waiting) <= self.depth:
                    try:
                        with self._arenas():  # a loader may start with its first item
                            item = next(source)
                    except Exception as error:  # noqa: BLE001  # raised after the batches before it
                        end, last = error, self._state_now()
                    else:
                        with copying():
                            copied = copies.start(item)
                        waiting.append((copied, self._state_now()))
                        del copied
                        del item
                if not waiting:
                    break
                copied, state = waiting.popleft()
                if self._token is token:
                    self._state = state
                with copying():
                    batch = copies.finish(copied)
                del copied
                yield batch
                del batch
            if self._token is token:  # None if no other iteration is ahead of the loop
                self._state = None if self._state_now() == last else last
            assert end is not None
            if not isinstance(end, StopIteration):
                raise end
        finally:
            if waiting:
                self._repeat_epoch()
            waiting.clear()
            copies.close()
            # The traceback of the error refers to this frame: avoid a reference cycle.
            del source, end


@functools.cache
def _side_stream(index: int) -> Any:
    """Return the stream of all copies to a device.

    PyTorch keeps the memory that a stream has used for that stream: with one for each epoch, a
    device would soon hold the batches of many.
    """
    return torch.cuda.Stream(torch.device("cuda", index))  # type: ignore[no-untyped-call]


class _Copies:
    """Copies to a CUDA device on a side stream.

    Args:
        device: The device.
        locks_slots: Whether to copy straight from memory that is shared with workers.
    """

    def __init__(self, device: torch.device, *, locks_slots: bool = False) -> None:
        index = torch.cuda.current_device() if device.index is None else device.index
        self._device = torch.device("cuda", index)
        self._stream = _side_stream(index)
        self._locks_slots = locks_slots
        # Batches in memory that is shared with workers, and the event after their copy.
        self._in_slots: deque[tuple[list[Any], Any]] = deque()

    def start(self, data: Any) -> tuple[Any, Any]:
        """Start to copy data; return it on the device, and the event after the copy."""
        while self._in_slots and self._in_slots[0][1].query():
            self._in_slots.popleft()
        in_slots: list[Any] = []

        def lock(part: Any) -> Any:
            slot = getattr(part, "slot", None)
            if slot is None or not slot.lock():
                return _pinned(part)
            in_slots.append(part)
            return part

        can_lock = self._locks_slots and can_pin()
        with torch.cuda.stream(self._stream):
            source = _map_parts(data, "pin_memory", lock) if can_lock else pin_memory(data)
            # PyTorch reuses its page-locked memory only after all copies from it.
            moved, done = move(source, self._device), self._stream.record_event()
        if in_slots:  # a worker would write to them as soon as they are let go of
            self._in_slots.append((in_slots, done))
        return moved, done

    def finish(self, copied: tuple[Any, Any]) -> Any:
        """Return the data, after making the current stream wait for the copy."""
        data, done = copied
        current = torch.cuda.current_stream(self._device)
        current.wait_event(done)
        # The memory belongs to the side stream, which must not reuse it before the current stream.
        _map_parts(data, "record_stream", lambda part: part.record_stream(current))
        return data

    def close(self) -> None:
        """Wait for copies from memory that is shared with workers."""
        while self._in_slots:
            self._in_slots.popleft()[1].synchronize()


def check_device(device: torch.device | str | int) -> torch.device:
    """Return the device of a name or number.

    Raises:
        RuntimeError: If the name is not valid, or if the CUDA device does not exist.
    """
    checked = torch.device(device)
    if checked.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            raise RuntimeError(
                f"device {str(checked)!r} does not exist: PyTorch finds no CUDA device"
            )
        if checked.index is not None and checked.index >= count:
            raise RuntimeError(
                f"device {str(checked)!r} does not exist: PyTorch finds "
                f"{counted(count, 'CUDA device')}"
            )
    return checked
