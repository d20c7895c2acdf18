"""The loader of a training loop: a dataset, its workers, a device and saved states."""

from __future__ import annotations

import copy
import functools
import multiprocessing
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sized
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    Sampler,
    SequentialSampler,
    default_convert,
)

from .._datasets.base import Item_co, RecordDataset
from .._datasets.description import describe_share
from .._datasets.epochs import NewWeights
from .._datasets.lost_items import report_lost_items
from .._datasets.options import ReplaceOptions, change_options
from .._datasets.partition import EpochPartition
from .._datasets.selecting import SelectingDataset
from .._datasets.statistics import LoadingStats
from .._order.distributed import resolve_rank
from .._order.progress import Place
from .._order.ramp import Ramp
from .._storage.exit import close_at_exit
from .._tensors.collate import collate, pin_collate
from .._tensors.device import DevicePrefetcher, can_pin, check_device
from .._tensors.trainers import trainer_hooks
from ..checks import check_integer, counted
from .images import describe_images, image_features
from .loop_stats import LoopStats
from .resumable import Loop, ResumableLoader
from .sampling import SamplerEpochs, UnusedItems

if TYPE_CHECKING:
    from .._tensors.batch import Batch

_Collated = TypeVar("_Collated")

_IS_BUSY = (
    "another loop over this loader is running, and its worker processes serve one loop at a time: "
    "leave that loop first (an iterator is left by its close(), or when it is deleted), or make "
    "another loader with tio.make_loader"
)


class Loader(Generic[Item_co]):
    """An iterable over batches on their device, epoch after epoch; made by :func:`make_loader`.

    With worker processes, only one loop can run at a time: another one raises a ``RuntimeError``
    that leaves the running loop as it is. Without, loops are independent of each other.

    Attributes:
        dataset: The dataset that is read, with the batch size.
        device: Device of the batches; None if none was given.
    """

    def __init__(
        self,
        batches: ResumableLoader,
        device: torch.device | None,
        described: Iterable[str],
        pinning: _Pinning,
    ) -> None:
        self.dataset: Any = batches.dataset
        self.device = device
        self._batches = batches
        self._given: Any = batches
        if device is not None:
            self._given = DevicePrefetcher(batches, device)
            self._given.makes_pinned = pinning.is_wanted
            self._given.locks_slots = pinning.locks_slots
        self._described = list(described)
        self._has_loop = False  # that uses the worker processes
        self._num_workers = batches.num_workers
        self._stats = LoopStats(batches.dataset, in_batches=batches.in_batches)

    def __iter__(self) -> Iterator[Item_co]:
        return close_at_exit(self._taken())

    def _taken(self) -> Generator[Any, None, None]:
        """Yield items, and move to the next epoch when the loop has taken the last one.

        Nothing starts before the first item is taken: a trainer makes an iterator only to check
        that this is possible, and sets the epoch and the position after it has made another one.
        """
        if self._has_loop:
            raise RuntimeError(_IS_BUSY)
        self._has_loop = self._num_workers > 0
        try:
            items = iter(self._given)
            loop = self._batches.newest
            assert loop is not None
            taken = 0
            with trainer_hooks().registered_loop() as mark_end:
                for item in self._stats.measured(items):
                    taken += 1
                    # Copies to the device may be ahead of the loop.
                    if taken == loop.num_yielded and loop.is_at_end():
                        if mark_end is not None:
                            mark_end(self._num_unrepeated(loop))
                        self._batches.end(loop)
                    yield item
            self._batches.end(loop)
        finally:
            self._has_loop = False

    def _num_unrepeated(self, loop: Loop) -> int | None:
        """Return the number of records in the last step of all processes, without repeated ones.

        It is not known with a mesh that not all processes divide: peers have the same records.
        """
        if isinstance(self.dataset, RecordDataset):
            mesh = self.dataset._session.pipeline.options["mesh"]
            if mesh is not None and mesh.world_size != resolve_rank(None, None)[1]:
                return None
        return loop.num_unrepeated()

    def __len__(self) -> int:
        """Return the number of batches in an iteration.

        Raises:
            TypeError: If the dataset is endless or a stream.
        """
        return len(self._given)

    def num_batches(self, epoch: int) -> int:
        """Internal interface: the number of batches in an iteration that starts with an epoch."""
        partition = self._batches.epochs.partition
        if not isinstance(partition, EpochPartition) or partition.options["epochs"] != 1:
            return len(self)
        return partition.num_steps(epoch)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration. Each epoch has its own shuffle.

        Without it, an iteration is followed by the next epoch if the loop took its last item, else
        by the same epoch.

        A position set by :meth:`load_state_dict` is kept if it is in that epoch, else dropped.
        """
        self._given.set_epoch(epoch)

    def repeat_epoch(self) -> None:
        """Internal interface: start the last epoch again, as its last batches were not used."""
        self._batches.repeat_epoch()

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the loop as plain numbers and strings.

        It counts batches that the loop received, not those that are prefetched. Without workers,
        several loops may run at once: the position is that of the one that received a batch last.

        Raises:
            RuntimeError: If the position is not known; :meth:`describe` reports this beforehand.
        """
        state: dict[str, Any] = self._given.state_dict()
        return state

    def load_state_dict(
        self, state: Mapping[str, Any], *, weights: NewWeights | None = None
    ) -> None:
        """Start the next iteration at a saved position; it yields exactly the rest.

        After a state at the end of an epoch, the next epoch follows.

        Args:
            state: A result of :meth:`state_dict`.
            weights: ``"new"`` continues each dataset of a mixture with other weights or datasets
                where it was; see docs/resuming.md.

        Raises:
            StateMismatchError: If the state belongs to other files, another order or other batches.
            ValueError: If ``weights`` is invalid.
            TypeError: If ``weights`` is given, and the dataset is not a mixture of records.
        """
        self._given.load_state_dict(state, **({} if weights is None else {"weights": weights}))

    def resume(self, *, epoch: int, batches: int) -> None:
        """Start the next iteration after a number of batches of an epoch, without reading them.

        A trainer that counts its steps, and saves no state of its loaders, resumes with this.

        Args:
            epoch: Number of the epoch.
            batches: Number of batches of that epoch that this rank has used.

        Raises:
            ValueError: If the dataset has no ``batch_size``, or the epoch has fewer batches.
        """
        self._batches.resume(epoch, batches)

    def describe(self) -> str:
        """Return the choices of the loader and their reasons, in lines of text.

        With several ranks, a line tells the share of this one. Once a loop has begun, the last line
        names what takes most of its time.
        """
        lines = list(self._described)
        if isinstance(self.dataset, RecordDataset):
            share = describe_share(self.dataset._session)
            lines[1:1] = [] if share is None else [f"share: {share}"]
        bottleneck = self._stats.bottleneck()
        lines += [] if bottleneck is None else [bottleneck]
        return "\n".join(lines)

    def stats(self) -> LoadingStats:
        """Return statistics of loading since the previous call.

        The first call counts from the start of the first loop. Workers are included: batches count
        when a worker has made them, which is ahead of the loop. :meth:`describe` does not count as
        a call.
        """
        return self._stats.take()

    def __repr__(self) -> str:
        device = "" if self.device is None else f", device={str(self.device)!r}"
        return f"Loader({self.dataset!r}, num_workers={self._num_workers}{device})"


class _Pinning(NamedTuple):
    """How the batches of a loader get into page-locked memory.

    Attributes:
        is_wanted: Whether they do.
        locks_slots: Whether the memory that workers share is page-locked.
    """

    is_wanted: bool
    locks_slots: bool


class _LoaderOptions(TypedDict, total=False):
    """Arguments of :func:`make_loader` that do not change what the loader yields."""

    num_workers: int
    device: torch.device | str | int | None
    pin_memory: bool | None
    sampler: Iterable[int] | None
    prefetch_factor: int | None
    multiprocessing_context: Any
    timeout: float
    worker_init_fn: Callable[[int], Any] | None


# Arguments of PyTorch's DataLoader that a loader lacks, and what to write instead.
_INSTEAD = {
    "shuffle": "pass shuffle=True to the dataset; a map-style dataset takes "
    "sampler=torch.utils.data.RandomSampler(dataset), or the DistributedSampler of several ranks",
    "drop_last": "pass drop_last=True to the dataset; a map-style dataset keeps its last batch",
    "batch_sampler": "pass batch_size=n, and sampler=numbers for a map-style dataset",
    "persistent_workers": "workers are always kept from epoch to epoch",
    "pin_memory_device": "pass device=device",
    "generator": "pass seed=n to the dataset, or a sampler with this generator",
}


@overload
def make_loader(
    dataset: Dataset[Any],
    *,
    collate_fn: Callable[[Any], _Collated],
    batch_size: int | None = None,
    **options: Unpack[_LoaderOptions],
) -> Loader[_Collated]: ...
@overload
def make_loader(
    dataset: Dataset[Mapping[str, Any]],
    *,
    batch_size: int,
    collate_fn: None = None,
    **options: Unpack[_LoaderOptions],
) -> Loader[Batch]: ...
@overload
def make_loader(
    dataset: Dataset[Item_co],
    *,
    batch_size: int | None = None,
    collate_fn: None = None,
    **options: Unpack[_LoaderOptions],
) -> Loader[Item_co]: ...
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
    timeout: float = 0,
    worker_init_fn: Callable[[int], Any] | None = None,
    **others: Any,
) -> Loader[Any]:
    """Make the loader of a training loop.

    ``for batch in tio.make_loader(dataset, batch_size=256, device="cuda")``: native code makes the
    batches, in page-locked memory, and each is copied to the device while the loop computes with
    the one before. :meth:`Loader.describe` reports what was chosen and why. States are exact after
    each batch. Epochs advance by what the loop took, however far workers are ahead.

    Args:
        dataset: A :class:`TFRecordDataset`, :class:`TFRecordStream` or mixture, a
            :class:`TFRecordMapDataset`, or another map-style dataset of dicts, such as a ``Subset``
            of it.
        batch_size: Batch size to use if the dataset was created without one. By default the
            dataset's own; without one, the loader yields samples.
        num_workers: Number of worker processes, which are kept from epoch to epoch. 0 loads with
            threads of this process, which is fastest unless Python code does much work for each
            record.
        device: Device of the batches; they are copied by a :class:`DevicePrefetcher`. By default
            they stay where they are made.
        pin_memory: Put batches into page-locked memory; by default if ``device`` is CUDA, and then
            they are made in it where this is possible. Ignored without CUDA. With False, a batch
            for a CUDA device is copied into page-locked memory by the loop, on its way to the
            device.
        collate_fn: Called with each item that the loader would yield: a Batch (``(keys, Batch)``,
            or a list without a schema), or each sample without ``batch_size``. For a map-style
            dataset it is called with the list of samples; the default is :func:`collate`.
            ``tio.pad_collate(max_len=512)`` takes all of these.
        sampler: Record numbers of a map-style dataset in the order of an epoch. It must yield the
            same numbers whenever that epoch is repeated, or states cannot be loaded. Its
            ``set_epoch`` is called for each next epoch if it has one.
        prefetch_factor: Number of batches that each worker loads ahead.
        multiprocessing_context: Start method of workers: "fork", "spawn", "forkserver" or a
            context.
        timeout: Seconds to wait for a batch of a worker before a RuntimeError; 0 waits as long as
            it takes.
        worker_init_fn: Called in each worker with its number, before it loads.
        others: Refused, with what to write in place of an argument of ``DataLoader``.

    Raises:
        ValueError: If the dataset has another ``batch_size``, ``sampler`` is given for a dataset
            with an order of its own, or no ``sampler`` for a map-style dataset with several ranks,
            or one that gives all ranks the same records; or ``timeout`` without workers.
        TypeError: If ``dataset`` is neither one of this package nor map-style, or a loader has no
            such argument.
        RuntimeError: If ``device`` is a CUDA device that does not exist.
    """
    for name in others:
        reason = _INSTEAD.get(name, "help(tio.make_loader) lists its arguments")
        raise TypeError(f"make_loader has no argument {name!r}: {reason}")
    check_integer("num_workers", num_workers)
    if timeout and not num_workers:
        raise ValueError("timeout is for worker processes: it needs num_workers=1 or more")
    target = None if device is None else check_device(device)
    on_cuda = target is not None and target.type == "cuda"
    if target is not None and any(each.decoder == "cuda" for each in image_features(dataset)):
        from .._tensors.encoded_images import decoder_of  # noqa: PLC0415  # rarely needed

        decoder_of(target)  # to find now that it is missing
    wanted = on_cuda if pin_memory is None else pin_memory
    is_pinned = wanted and can_pin()
    options: dict[str, Any] = {
        "num_workers": num_workers,
        "pin_memory": is_pinned,
        "persistent_workers": num_workers > 0,
        "timeout": timeout,
        "worker_init_fn": functools.partial(_init_worker, worker_init_fn),
        "prefetch_factor": prefetch_factor,
        "multiprocessing_context": multiprocessing_context,
    }
    if isinstance(dataset, RecordDataset):
        if sampler is not None:
            raise ValueError(
                "sampler must be None for this dataset, which has its own order: samplers are for "
                "map-style datasets"
            )
        dataset = _with_batch_size(dataset, batch_size)
        if is_pinned and on_cuda and num_workers and _yields_arenas(dataset, collate_fn):
            options["pin_memory"] = False  # which would copy
        batches = _of_records(dataset, collate_fn, options)
    elif hasattr(dataset, "__len__") and not isinstance(dataset, IterableDataset):
        batches = _of_numbers(dataset, batch_size, sampler, collate_fn, options)
    else:
        raise TypeError(
            f"dataset must be one of torchrec_io or have __getitem__ and __len__, got {dataset!r}"
        )
    described = [
        f"yields: {_about_items(dataset, batch_size)}",
        *describe_images(dataset),
        _about_processes(dataset, num_workers, multiprocessing_context),
        _about_pinning(wanted, pin_memory, on_cuda=on_cuda),
        _about_device(target),
        f"states: {batches.description}",
    ]
    locks_slots = is_pinned and not options["pin_memory"]
    return Loader(batches, target, described, _Pinning(wanted, locks_slots))


def _yields_arenas(dataset: RecordDataset, collate_fn: Callable[[Any], Any] | None) -> bool:
    """Return whether a loader yields the batches of a dataset as native code makes them."""
    session = dataset._session
    is_changed = collate_fn is not None or session.pipeline.options["transform"] is not None
    return session.partition.in_batches and dataset.schema is not None and not is_changed


def _of_records(
    dataset: RecordDataset, collate_fn: Callable[[Any], Any] | None, options: dict[str, Any]
) -> ResumableLoader:
    """Return the loader of a dataset with an order of its own."""
    dataset._session.is_own_share = True
    partition = dataset._session.partition
    num_workers = options["num_workers"]
    is_counted = (
        num_workers > 0
        and partition.in_batches
        and isinstance(partition, EpochPartition)
        and (partition.options["on_error"] == "raise" or partition.replaces_lost)
    )
    batches = ResumableLoader(
        dataset,
        dataset._session,
        num_workers,
        in_batches=partition.in_batches,
        is_counted=is_counted,
    )
    given: Any = dataset
    if num_workers > 0:
        given = copy.copy(dataset)
        given._session.share(dataset._session)
        given._session.starts = batches.starts
        given._session.is_own_share = True
    if batches.has_worker_positions:
        given = _PlacedItems(given)
        collate_fn = functools.partial(_collate_placed, collate_fn or default_convert)
    batches.loader = DataLoader(given, batch_size=None, collate_fn=collate_fn, **options)
    return batches


def _init_worker(init: Callable[[int], Any] | None, worker: int) -> None:
    report_lost_items()
    if init is not None:
        init(worker)


class _PlacedItems(IterableDataset[Any]):
    """The items of a dataset in a worker, each with the position of the worker after it.

    Args:
        dataset: The dataset.
    """

    def __init__(self, dataset: RecordDataset) -> None:
        self._dataset = dataset

    def __iter__(self) -> Iterator[tuple[Any, Place]]:
        for item in self._dataset:
            yield item, self._dataset._session.place()

    def __len__(self) -> int:
        return len(cast("Sized", self._dataset))


def _collate_placed(
    collate_fn: Callable[[Any], Any], placed: tuple[Any, Place]
) -> tuple[Any, Place]:
    item, place = placed
    return collate_fn(item), place


def _with_batch_size(dataset: RecordDataset, batch_size: int | None) -> RecordDataset:
    """Return the dataset with a batch size; both share their epoch and position."""
    if batch_size is None or dataset.batch_size == batch_size:
        return dataset
    if dataset.batch_size is not None:
        raise ValueError(
            f"batch_size must be {dataset.batch_size}, that of the dataset, or None, "
            f"got {batch_size}"
        )
    pipeline = dataset._session.pipeline
    if isinstance(batch_size, Ramp):
        raise ValueError(  # noqa: TRY004  # as for other values
            f"batch_size must be a positive integer, got {batch_size}: a dataset takes a Ramp, as "
            "in make_loader(TFRecordDataset(..., batch_size=tio.Ramp(...)))"
        )
    size = check_integer("batch_size", batch_size, 1)
    options = change_options(ReplaceOptions, pipeline.options, {"batch_size": size})
    other = dataset._derive(pipeline.with_options(options))
    other._session.share(dataset._session)
    return other


def _of_numbers(
    dataset: Any,
    batch_size: int | None,
    sampler: Iterable[int] | None,
    collate_fn: Callable[[Any], Any] | None,
    options: dict[str, Any],
) -> ResumableLoader:
    """Return the loader of a map-style dataset."""
    _, world_size = resolve_rank(None, None)
    if sampler is None and world_size > 1:
        raise ValueError(
            f"sampler must be given for a map-style dataset with {world_size} ranks: "
            "torch.utils.data.DistributedSampler(dataset) gives each rank its share, "
            "torch.utils.data.SequentialSampler(dataset) gives all records to each rank"
        )
    if world_size > 1 and isinstance(sampler, Sampler) and not _knows_rank(sampler):
        raise ValueError(
            f"sampler must give each of the {world_size} ranks its share, but a "
            f"{type(sampler).__name__} has no rank and num_replicas: use "
            "torch.utils.data.DistributedSampler(dataset), or a list of this rank's numbers"
        )
    given: Any = SequentialSampler(dataset) if sampler is None else sampler
    identity: dict[str, Any] = {"batch_size": batch_size, "records": len(dataset)}
    if isinstance(dataset, SelectingDataset):
        identity["split"] = dataset._pipeline.record_order.selection.fingerprint()
    epochs = SamplerEpochs(given, batch_size, identity)
    batches = ResumableLoader(
        dataset,
        epochs,
        options["num_workers"],
        in_batches=batch_size is not None,
        is_counted=True,
    )
    if batch_size is None:
        items: dict[str, Any] = {
            "batch_size": None,
            "sampler": UnusedItems(given, batches.starts),
        }
    else:
        check_integer("batch_size", batch_size, 1)
        sampled = BatchSampler(given, batch_size, drop_last=False)
        items = {"batch_sampler": UnusedItems(sampled, batches.starts)}
        # In workers, it collates into ordinary memory.
        collate_fn = collate_fn or (pin_collate if options["pin_memory"] else collate)
    batches.loader = DataLoader(dataset, collate_fn=collate_fn, **items, **options)
    return batches


def _knows_rank(sampler: Any) -> bool:
    return isinstance(sampler, SequentialSampler) or hasattr(sampler, "num_replicas")


# ---- descriptions ----


def _about_items(dataset: Any, batch_size: int | None) -> str:
    """Describe the items of a loader."""
    if not isinstance(dataset, RecordDataset):
        if batch_size is None:
            return "samples, one by one"
        return f"batches of {counted(batch_size, 'record')}, by number"
    partition = dataset._session.partition
    if not partition.in_batches:
        return "packed rows, one by one" if partition.has_rows else "samples, one by one"
    if partition.has_rows:
        return f"batches of {dataset.batch_size} packed rows of {partition.options['pack'].length}"
    kind = "lists of records" if dataset.schema is None else "batches made by native code"
    given = dataset.batch_size
    size = f"{given} records"
    if not isinstance(given, Ramp):
        size = "any number of records" if given is None else counted(given, "record")
    if not partition.has_batches:
        return f"{kind}, of {size}"
    tokens = partition.options["batch_tokens"]
    most = "" if tokens is None else f", {tokens} tokens at most"
    return f"{kind}, of {size} of similar length{most}"


def _about_processes(dataset: Any, num_workers: int, context: Any) -> str:
    if num_workers == 0:
        threads = 1
        if isinstance(dataset, RecordDataset):
            threads = dataset._session.pipeline.options["num_threads"] or 2
        how = "when a batch is asked for" if threads == 1 else f"with {threads} parsing threads"
        return f"read by: this process, {how}"
    name = _method_of(context)
    kept = "kept from epoch to epoch"
    return (
        f"read by: {num_workers} worker processes ({name}), {kept}; a batch crosses as one buffer"
    )


def _method_of(context: Any) -> str:
    """Return the start method of processes, without fixing it as the getter's default does."""
    known = getattr(context, "_name", context) or multiprocessing.get_start_method(allow_none=True)
    return known or multiprocessing.get_all_start_methods()[0]


def _about_pinning(wanted: bool, asked: bool | None, *, on_cuda: bool) -> str:
    if wanted and can_pin():
        return "page-locked memory: yes"
    if wanted:
        return "page-locked memory: no, there is no CUDA device"
    if on_cuda:
        return "page-locked memory: no, as requested; batches pass through it when they are copied"
    return (
        f"page-locked memory: no, {'as requested' if asked is False else 'the device is not CUDA'}"
    )


def _about_device(device: torch.device | None) -> str:
    if device is None:
        return "device: none, batches stay where they are made"
    if device.type == "cpu":
        return "device: cpu, nothing to copy"
    if device.type == "cuda":
        return f"device: {device}, batches are copied up to 2 ahead on a side stream"
    return f"device: {device}, a batch is copied when it is asked for"
