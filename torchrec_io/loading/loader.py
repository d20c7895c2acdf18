"""A DataLoader put together as a dataset, its workers and a device want it."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, SequentialSampler

from ..datasets.base import RecordDataset
from ..datasets.indexed import IndexedDataset
from ..datasets.options import check_number
from ..order.orders import StreamedOrder
from ..tensors.collate import collate
from ..tensors.device import DevicePrefetcher, can_pin, check_device
from .position import Counted, InProcess, Numbered, OfWorkers, Place, Unknown


class Loader:
    """What :func:`make_loader` makes: batches, on their device, epoch after epoch.

    Attributes:
        dataset: That is read, with the batch size.
        device: Where batches are; None if that was left open.
    """

    def __init__(
        self, batches: _Batches, device: torch.device | None, described: Iterable[str]
    ) -> None:
        self.dataset = batches.dataset
        self.device = device
        self._given: Any = batches if device is None else DevicePrefetcher(batches, device)
        self._described = list(described)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._given)

    def __len__(self) -> int:
        """Batches of one whole iteration.

        Raises:
            TypeError: there is no end, or no index to know it from.
        """
        return len(self._given)

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch that the next iteration starts with; another one is another shuffle.

        A place given by :meth:`load_state_dict` is kept if it is in that epoch, and dropped if not.
        """
        self._given.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """How far the loop over this has come: plain numbers and strings.

        It counts what was handed out, whatever workers and copies are ahead.

        Raises:
            RuntimeError: it cannot be known; :meth:`describe` says so beforehand.
        """
        state: dict[str, Any] = self._given.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Has the next iteration go on where a state was taken, with exactly the rest.

        Raises:
            StateMismatchError: the state is of other files, another order or other batches.
        """
        self._given.load_state_dict(state)

    def describe(self) -> str:
        """What was chosen and why, in lines of plain words."""
        return "\n".join(self._described)


def make_loader(
    dataset: Dataset[Any],
    *,
    batch_size: int | None = None,
    num_workers: int = 0,
    device: torch.device | str | int | None = None,
    pin_memory: bool | None = None,
    collate_fn: Callable[[Any], Any] | None = None,
    sampler: Iterable[int] | None = None,
    prefetch_factor: int | None = None,
    multiprocessing_context: Any = None,
) -> Loader:
    """Puts together what feeds a training loop.

    ``for batch in tio.make_loader(dataset, batch_size=256, device="cuda")``: batches made by native
    code, in page-locked memory, copied to the device while the batch before is computed with. Its
    :meth:`Loader.describe` says what was chosen and why; states are exact after each batch.

    Args:
        dataset: A :class:`TFRecordDataset`, a mix or stream of them, a :class:`TFRecordMapDataset`,
            or another map-style dataset of dicts, such as a ``Subset`` of it.
        batch_size: Of a dataset that has none. Left out, the dataset's own; without that, samples.
        num_workers: Processes that load, kept from epoch to epoch; 0: threads of this process,
            which is the fast way unless Python code has much to do for each record.
        device: Where batches go, with a :class:`DevicePrefetcher`. Left out, they stay where they
            are made.
        pin_memory: Put batches into page-locked memory; by default if ``device`` is CUDA. Left
            undone where there is no CUDA. With False, a batch for a CUDA device is copied there by
            the loop, on its way to the device.
        collate_fn: Called with what there would be without it: each Batch (or ``(keys, Batch)``, or
            list without a schema); samples without ``batch_size``; of a map-style dataset the list
            of samples, for which the default is :func:`collate`. ``tio.pad_collate(max_len=512)``
            takes all of these.
        sampler: For a map-style dataset: numbers of its records in the order of an epoch, the same
            each time that epoch is gone through, or states are of no use. Its ``set_epoch`` is
            called if it has one.
        prefetch_factor: Batches that each worker is ahead.
        multiprocessing_context: How workers start: "fork", "spawn", "forkserver" or a context.

    Raises:
        ValueError: the dataset has another ``batch_size`` of its own; ``sampler`` is for a dataset
            that has an order of its own.
        TypeError: ``dataset`` is neither of this package nor map-style.
        RuntimeError: ``device`` is a CUDA device that is not there.
    """
    check_number("num_workers", num_workers, 0)
    target = None if device is None else check_device(device)
    on_cuda = target is not None and target.type == "cuda"
    wanted = on_cuda if pin_memory is None else pin_memory
    options: dict[str, Any] = {
        "num_workers": num_workers,
        "pin_memory": wanted and can_pin(),
        "persistent_workers": num_workers > 0,
        "prefetch_factor": prefetch_factor,
        "multiprocessing_context": multiprocessing_context,
    }
    if isinstance(dataset, RecordDataset):
        if sampler is not None:
            raise ValueError("a sampler is for map-style datasets: this one has its own order")
        batches = _of_records(_with_batch_size(dataset, batch_size), collate_fn, options)
    elif hasattr(dataset, "__len__") and not isinstance(dataset, IterableDataset):
        batches = _of_numbers(dataset, batch_size, sampler, collate_fn, options)
    else:
        raise TypeError(
            "make_loader takes a dataset of torchrec_io or one with __getitem__ and __len__, not "
            f"{dataset!r}"
        )
    described = [
        *batches.described(collate_fn),
        _about_processes(batches, num_workers, multiprocessing_context),
        _about_pinning(wanted, pin_memory, on_cuda=on_cuda),
        _about_device(target),
        f"states: {batches.place.words}",
    ]
    return Loader(batches, target, described)


@dataclasses.dataclass(frozen=True)
class _Batches:
    """A DataLoader that knows how far it has come.

    Attributes:
        dataset: That is read.
        loader: Of it.
        place: Knows how far.
        what: What it gives, in words.
    """

    dataset: Any
    loader: Any
    place: Place
    what: str

    def __iter__(self) -> Iterator[Any]:
        self.place.begin()
        return self._counted(iter(self.loader))

    def _counted(self, items: Iterator[Any]) -> Iterator[Any]:
        for item in items:
            self.place.count()
            yield item
        self.place.end()

    def __len__(self) -> int:
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        self.place.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        return self.place.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.place.load_state_dict(state)

    def described(self, collate_fn: Any) -> Iterator[str]:
        yield f"gives: {self.what}"
        if collate_fn is not None:
            yield f"collated by: {_name_of(collate_fn)}"


def _of_records(
    dataset: RecordDataset, collate_fn: Callable[[Any], Any] | None, options: dict[str, Any]
) -> _Batches:
    """Batches of a dataset that has an order."""
    options_of = dataset._shares.options
    countable = (
        options_of.in_batches
        and not isinstance(dataset._shares.order, StreamedOrder)
        and options_of.on_error == "raise"
    )
    load: Any = DataLoader
    if options["num_workers"] > 0 and not countable and _has_torchdata():
        from torchdata.stateful_dataloader import StatefulDataLoader  # noqa: PLC0415

        load = StatefulDataLoader
    loader = load(dataset, batch_size=None, collate_fn=collate_fn, **options)
    place: Place
    if options["num_workers"] == 0:
        place = InProcess(dataset)
    elif countable:
        place = Counted(dataset)
    else:
        place = Unknown(dataset) if load is DataLoader else OfWorkers(dataset, loader)
    return _Batches(dataset, loader, place, _about_batches(dataset))


def _with_batch_size(dataset: RecordDataset, batch_size: int | None) -> RecordDataset:
    """The dataset with a batch size; both have one epoch and place."""
    if batch_size is None or dataset.batch_size == batch_size:
        return dataset
    if dataset.batch_size is not None:
        raise ValueError(
            f"the dataset makes batches of {dataset.batch_size} and batch_size is {batch_size}: "
            "give one of them"
        )
    other: RecordDataset
    if isinstance(dataset, IndexedDataset):
        other = dataset.replace(batch_size=batch_size)
    else:
        shares = dataset._shares
        other = dataset._copy(
            dataset._source, shares.order, shares.options.replace(batch_size=batch_size)
        )
    other._own_control = dataset._control  # so that set_epoch of either reaches both
    return other


def _of_numbers(
    dataset: Any,
    batch_size: int | None,
    sampler: Iterable[int] | None,
    collate_fn: Callable[[Any], Any] | None,
    options: dict[str, Any],
) -> _Batches:
    """Batches of a map-style dataset."""
    given: Any = SequentialSampler(dataset) if sampler is None else sampler
    place = Numbered(given, batch_size, len(dataset))
    if batch_size is None:
        what = "samples, one by one"
        loader = DataLoader(
            dataset, batch_size=None, sampler=place.numbers(given), collate_fn=collate_fn, **options
        )
    else:
        check_number("batch_size", batch_size, 1)
        what = f"batches of {batch_size} records, by number"
        batches = BatchSampler(given, batch_size, drop_last=False)
        loader = DataLoader(
            dataset,
            batch_sampler=place.numbers(batches),
            collate_fn=collate_fn or collate,
            **options,
        )
    return _Batches(dataset, loader, place, what)


def _has_torchdata() -> bool:
    return importlib.util.find_spec("torchdata") is not None


# ---- in words ----


def _name_of(function: Any) -> str:
    if isinstance(function, functools.partial):
        options = ", ".join(f"{name}={value!r}" for name, value in function.keywords.items())
        return f"{_name_of(function.func)}({options})"
    name: str | None = getattr(function, "__name__", None)
    return name or repr(function)


def _about_batches(dataset: RecordDataset) -> str:
    """What a dataset gives."""
    options = dataset._shares.options
    if not options.in_batches:
        return "samples, one by one"
    kind = "lists of records" if dataset.schema is None else "batches made by native code"
    size = "any number of" if options.batch_size is None else str(options.batch_size)
    if not dataset._shares.by_length:
        return f"{kind}, of {size} records"
    most = "" if options.batch_tokens is None else f", {options.batch_tokens} tokens at most"
    return f"{kind}, of {size} records of similar length{most}"


def _about_processes(batches: _Batches, num_workers: int, context: Any) -> str:
    if num_workers == 0:
        threads = 1
        if isinstance(batches.dataset, RecordDataset):
            threads = batches.dataset._shares.options.num_threads or 2
        how = "when a batch is asked for" if threads == 1 else f"with {threads} parsing threads"
        return f"read by: this process, {how}"
    name = getattr(context, "_name", context) or _start_method()
    kept = "kept from epoch to epoch"
    return (
        f"read by: {num_workers} worker processes ({name}), {kept}; a batch crosses as one buffer"
    )


def _start_method() -> str:
    """How processes start; asking for it plainly would settle it."""
    known = multiprocessing.get_start_method(allow_none=True)
    return known or multiprocessing.get_all_start_methods()[0]


def _about_pinning(wanted: bool, asked: bool | None, *, on_cuda: bool) -> str:
    if wanted and can_pin():
        return "page-locked memory: yes"
    if wanted:
        return "page-locked memory: no, there is no CUDA device"
    if on_cuda:
        return "page-locked memory: no, as asked; each batch passes through it when it is copied"
    return f"page-locked memory: no, {'as asked' if asked is False else 'it is for CUDA devices'}"


def _about_device(device: torch.device | None) -> str:
    if device is None:
        return "device: none given, batches stay where they are made"
    if device.type == "cpu":
        return "device: cpu, nothing to copy"
    if device.type == "cuda":
        return f"device: {device}, batches are copied up to 2 ahead on a side stream"
    return f"device: {device}, a batch is copied when it is asked for"
