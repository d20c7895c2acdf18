"""make_loader: its batches are those of the dataset, and its states resume exactly."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import (
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

import torchrec_io as tio
from tests.support.datasets import SCHEMA, ids_of, open_records, write_files
from tests.support.states import through_json
from torchrec_io._images import native as native_module
from torchrec_io._loading.loader import Loader

SIZES = [13, 0, 7, 10]
WORKERS = [0, 2]


Opened = dict[str, Callable[[list[str]], Any]]
# tests/contract has datasets of every kind.
MADE: Opened = {
    "batches": lambda paths: open_records(paths, batch_size=4, shuffle=True, seed=5),
    "batch size given": lambda paths: open_records(paths, shuffle=10),
    "mix": lambda paths: tio.mix([open_records(path) for path in paths[::2]], weights=[1.0, 2.0]),
    "by number": lambda paths: tio.TFRecordMapDataset(paths, SCHEMA),
    "a part by number": lambda paths: Subset(tio.TFRecordMapDataset(paths, SCHEMA), range(3, 20)),
    "samples by number": lambda paths: tio.TFRecordMapDataset(paths, SCHEMA),
}
# Datasets whose position only worker processes know.
OF_WORKERS: Opened = {
    "samples": lambda paths: open_records(paths, shuffle=True),
    "stream": lambda paths: open_records(paths, stream=True, batch_size=4, shuffle=6),
    "skipping": lambda paths: open_records(paths, batch_size=4, on_error="skip"),
}
# Other arguments of make_loader.
GIVEN: dict[str, dict[str, Any]] = {
    "batch size given": {"batch_size": 4},
    "mix": {"batch_size": 3},
    "by number": {"batch_size": 4, "sampler": [*range(sum(SIZES))][::-1]},
    "a part by number": {"batch_size": 2},
}


def make(paths: list[str], sort: str, workers: int = 0, **options: Any) -> Loader:
    dataset = {**MADE, **OF_WORKERS}[sort](paths)
    return tio.make_loader(dataset, num_workers=workers, **GIVEN.get(sort, {}), **options)


# ---- items ----


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("sort", MADE)
def test_batches_are_those_of_the_dataset(paths: list[str], sort: str, workers: int) -> None:
    found = ids_of(make(paths, sort, workers))
    dataset, given = MADE[sort](paths), GIVEN.get(sort, {})
    size = given.get("batch_size")
    if isinstance(dataset, IterableDataset):
        expected = ids_of(dataset)
    else:
        numbers = given.get("sampler", range(len(dataset)))
        expected = [dataset[i]["id"].tolist() for i in numbers]
    if size is not None:
        expected = [expected[i : i + size] for i in range(0, len(expected), size)]
    assert found == expected
    assert len(make(paths, sort, workers)) == len(found) > 1


@pytest.mark.parametrize("workers", WORKERS)
def test_dataset_and_loader_share_their_epoch(paths: list[str], workers: int) -> None:
    """This holds although the dataset with the batch size is another object."""
    dataset = tio.TFRecordDataset(paths, SCHEMA, shuffle=True)
    loader = tio.make_loader(dataset, batch_size=4, num_workers=workers)
    assert loader.dataset.batch_size == 4
    assert dataset.batch_size is None
    seen = []
    for epoch in range(3):
        (dataset if epoch % 2 else loader).set_epoch(epoch)
        seen.append([number for batch in loader for number in batch["id"].tolist()])
        dataset.set_epoch(epoch)
        assert seen[-1] == ids_of(dataset)
    assert len({tuple(ids) for ids in seen}) == 3


# ---- collating ----


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", [tio.TFRecordDataset, tio.TFRecordMapDataset])
def test_keys_and_padding(paths: list[str], workers: int, kind: Any) -> None:
    records = tio.TFRecordDataset(paths, SCHEMA, with_key=True)
    rows = {key: record["tokens"].tolist()[:3] for key, record in records}
    loader = tio.make_loader(
        kind(paths, SCHEMA, with_key=True),
        batch_size=4,
        num_workers=workers,
        device="cpu",
        collate_fn=tio.pad_collate(max_len=3, buckets=(2, 8), fill=-1),
    )
    seen: list[str] = []
    for keys, batch in loader:
        wanted = [rows[key] for key in keys]
        width = 2 if max(map(len, wanted)) <= 2 else 8
        assert batch["tokens"].tolist() == [row + [-1] * (width - len(row)) for row in wanted]
        assert batch.lengths["tokens"].tolist() == list(map(len, wanted))
        seen += keys
    assert seen == [*rows]


# ---- saving and resuming ----


def test_mismatched_states(paths: list[str]) -> None:
    loader = make(paths, "batches", 2)
    state = loader.state_dict()
    other = tio.make_loader(tio.TFRecordDataset(paths, SCHEMA, batch_size=4), num_workers=2)
    with pytest.raises(tio.StateMismatchError, match="shuffle is 'False' here and 'True'"):
        other.load_state_dict(state)
    by_number = make(paths, "by number")
    with pytest.raises(tio.StateMismatchError, match="not a state of a map-style dataset"):
        by_number.load_state_dict(state)
    with pytest.raises(tio.StateMismatchError, match=r"batch_size is 4 here and None in the state"):
        by_number.load_state_dict(make(paths, "samples by number").state_dict())
    with pytest.raises(tio.StateMismatchError, match="not a state of a dataset"):
        loader.load_state_dict(by_number.state_dict())


@pytest.mark.parametrize("sort", OF_WORKERS)
def test_states_of_workers_need_as_many(paths: list[str], sort: str) -> None:
    loader = make(paths, sort, 2)
    before = through_json(loader.state_dict())
    first = ids_of(itertools.islice(loader, 3))
    inside = loader.state_dict()
    with pytest.raises(tio.StateMismatchError, match=r"a loader with 2 workers.* this one has 3"):
        make(paths, sort, 3).load_state_dict(inside)
    with pytest.raises(tio.StateMismatchError, match="not a state of a dataset"):
        make(paths, sort).load_state_dict(inside)
    with pytest.raises(tio.StateMismatchError, match="not a state of a loader"):
        loader.load_state_dict({"version": 1, "epoch": 0, "left": 5, "workers": None})
    twice = {**inside, "workers": inside["workers"][:1] * 2}
    with pytest.raises(tio.StateMismatchError, match="workers are missing"):
        loader.load_state_dict(twice)
    # Nothing was taken, so any number of workers can start.
    other = make(paths, sort, 2)
    other.load_state_dict(before)
    assert ids_of(itertools.islice(other, 3)) == first


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_the_rest_of_an_epoch_follows(workers: int, on_error: str, tmp_path: Path) -> None:
    paths = write_files(tmp_path, [50])
    dataset = open_records(paths, shuffle=True, batch_size=10, on_error=on_error)
    epochs = []
    for epoch in range(3):
        dataset.set_epoch(epoch)
        epochs.append(ids_of(dataset))
    loader = tio.make_loader(dataset.replace(), num_workers=workers)
    assert ids_of(loader) == epochs[0]
    loader.resume(epoch=1, batches=3)
    assert loader.state_dict()
    assert ids_of(loader) == epochs[1][3:]
    assert ids_of(loader) == epochs[2]
    next(iter(loader))
    loader.resume(epoch=0, batches=4)
    assert ids_of(loader) == epochs[0][4:]
    loader.resume(epoch=0, batches=5)
    assert ids_of(loader) == epochs[1]


@pytest.mark.parametrize("sort", OF_WORKERS)
def test_states_of_the_workers_of_another_rank(paths: list[str], sort: str) -> None:
    def loader_of(rank: int) -> Loader[Any]:
        options: dict[str, Any] = {"rank": rank, "world_size": 2, "uneven": "keep", "shuffle": 5}
        if sort != "samples":
            options["batch_size"] = 2
        dataset = open_records(paths, stream=sort == "stream", on_error="skip", **options)
        return tio.make_loader(dataset, num_workers=2)

    loaders = [loader_of(rank) for rank in range(2)]
    loops = [iter(loader) for loader in loaders]
    for loop in loops:
        ids_of(itertools.islice(loop, 3))
    state, resumed = through_json(loaders[1].state_dict()), loader_of(0)
    if sort == "stream":
        with pytest.raises(tio.StateMismatchError, match="only with the same rank"):
            resumed.load_state_dict(state)
    else:
        resumed.load_state_dict(state)
        assert ids_of(resumed) == ids_of(loops[0])


def test_a_map_style_dataset_resumes_by_count(tmp_path: Path) -> None:
    dataset = tio.TFRecordMapDataset(write_files(tmp_path, [50]), SCHEMA)
    loader = tio.make_loader(dataset, batch_size=10)
    loader.resume(epoch=0, batches=3)
    assert ids_of(loader) == [list(range(30, 40)), list(range(40, 50))]
    assert len(ids_of(loader)) == 5
    loader.resume(epoch=0, batches=5)
    assert len(ids_of(loader)) == 5


def test_a_stream_cannot_be_counted(tmp_path: Path) -> None:
    paths = write_files(tmp_path, [50])
    stream = tio.make_loader(open_records(paths, stream=True, batch_size=10))
    with pytest.raises(TypeError, match="a stream cannot be resumed by a number of batches"):
        stream.resume(epoch=0, batches=1)


def test_no_epoch_starts_before_the_first_item(tmp_path: Path) -> None:
    """Lightning makes an iterator, loads a state, and makes another one."""
    dataset = open_records(write_files(tmp_path, [50]), shuffle=True, batch_size=10)
    whole = ids_of(dataset.replace())
    loader = tio.make_loader(dataset, num_workers=2)
    unused = iter(loader)
    loader.resume(epoch=0, batches=1)
    items = iter(loader)
    assert ids_of(items) == whole[1:]
    del unused
    items = iter(loader)
    loader.set_epoch(0)  # after the iterator was made
    assert ids_of(items) == whole


# ---- descriptions and errors ----


def test_description(paths: list[str]) -> None:
    lines = make(paths, "batches").describe().splitlines()
    assert lines == [
        "yields: batches made by native code, of 4 records",
        "read by: this process, with 2 parsing threads",
        "page-locked memory: no, the device is not CUDA",
        "device: none, batches stay where they are made",
        "states: the dataset's own; can be resumed with any number of workers",
    ]
    kept = "kept from epoch to epoch"
    several = make(
        paths,
        "by number",
        2,
        device="cpu",
        pin_memory=False,
        collate_fn=tio.pad_collate,
        multiprocessing_context="forkserver",
    )
    assert several.describe().splitlines() == [
        "yields: batches of 4 records, by number",
        f"read by: 2 worker processes (forkserver), {kept}; a batch crosses as one buffer",
        "page-locked memory: no, as requested",
        "device: cpu, nothing to copy",
        "states: counted batches; can be resumed with any number of workers",
    ]
    assert "those of the workers; must be resumed with as many" in (
        make(paths, "stream", 2).describe()
    )
    assert "samples, one by one" in make(paths, "samples").describe()
    by_length = tio.TFRecordDataset(paths, SCHEMA, batch_tokens=9, length_key="tokens")
    text = "of any number of records of similar length, 9 tokens at most"
    assert text in tio.make_loader(by_length).describe()
    raw = tio.make_loader(tio.TFRecordDataset(paths, num_threads=1), batch_size=2)
    assert "lists of records, of 2" in raw.describe()
    assert "when a batch is asked for" in raw.describe()
    assert [len(records) for records in raw] == [2] * 15


def test_description_of_image_decoders(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow does not detect all damage, and the description says so."""

    def described(*images: tio.ImageFeature) -> list[str]:
        schema = {str(number): image for number, image in enumerate(images)}
        loader = tio.make_loader(tio.TFRecordDataset(paths, schema, batch_size=2))
        return [line for line in loader.describe().splitlines() if line.startswith("images: ")]

    pillow, native = tio.ImageFeature(decoder="pillow"), tio.ImageFeature(decoder="native")
    by_pillow = (
        "images: decoded by Pillow, which cannot detect that the scan of a baseline JPEG was cut; "
    )
    by_libjpeg = "images: JPEGs are decoded natively by libjpeg-turbo, which detects cut scans, "
    pngs = "most PNGs are decoded natively by libdeflate, "
    rest = "other formats by Pillow"
    assert described(pillow, native) == [by_pillow + "decoder='auto' can", by_libjpeg + pngs + rest]
    assert described(tio.ImageFeature(channels=4)) == [by_libjpeg + rest]
    assert described(tio.ImageFeature(decoder=None)) == []
    monkeypatch.setattr(native_module, "_png", None)
    assert described(tio.ImageFeature()) == [by_libjpeg + rest]
    monkeypatch.setattr(native_module, "_jpeg", None)
    assert described(tio.ImageFeature()) == [by_pillow + "a build with libjpeg-turbo can"]


def test_describe_does_not_set_the_start_method(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = multiprocessing.get_start_method()
    default: Any = vars(multiprocessing.context)["_default_context"]
    monkeypatch.setattr(default, "_actual_context", None)
    assert f"2 worker processes ({usual})" in make(paths, "batches", 2).describe()
    assert multiprocessing.get_start_method(allow_none=True) is None
    context = multiprocessing.get_context("spawn")
    lines = make(paths, "batches", 2, multiprocessing_context=context).describe()
    assert "2 worker processes (spawn)" in lines


def test_gpu_always_uses_page_locked_memory(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchrec_io._loading.loader.check_device", torch.device)
    monkeypatch.setattr("torchrec_io._tensors.device.check_device", torch.device)
    lines = make(paths, "batches", device="cuda", pin_memory=False).describe().splitlines()
    assert (
        "page-locked memory: no, as requested; batches pass through it when they are copied"
        in lines
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_cuda(paths: list[str]) -> None:
    with pytest.raises(
        RuntimeError, match=r"device 'cuda:1' does not exist: PyTorch finds no CUDA device"
    ):
        make(paths, "batches", device="cuda:1")
    loader = make(paths, "batches", pin_memory=True)
    assert "page-locked memory: no, there is no CUDA device" in loader.describe()
    assert len(list(loader)) == 8  # without a warning of DataLoader


def test_a_device_without_streams(paths: list[str]) -> None:
    loader = make(paths, "batches", device="meta")
    for stop, batch in enumerate(loader, 1):
        assert batch.device.type == "meta"
        assert batch["tokens"].offsets.device.type == "meta"
        state = loader.state_dict()
        assert state["begin"] + state["consumed"] == min(4 * stop, sum(SIZES))
    assert "meta, a batch is copied when it is asked for" in loader.describe()


def test_invalid_arguments_are_refused(paths: list[str]) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=4)
    assert len(tio.make_loader(dataset, batch_size=4)) == 8
    with pytest.raises(ValueError, match=r"batch_size must be 4, .* got 8"):
        tio.make_loader(dataset, batch_size=8)
    with pytest.raises(ValueError, match="which has its own order"):
        tio.make_loader(dataset, sampler=[1])
    with pytest.raises(ValueError, match="num_workers must be"):
        tio.make_loader(dataset, num_workers=-1)
    with pytest.raises(ValueError, match="batch_size must be"):
        tio.make_loader(tio.TFRecordMapDataset(paths), batch_size=0)

    class Other(IterableDataset[int]):
        """A dataset of another library."""

        def __iter__(self) -> Iterator[int]:
            return iter([1])

    with pytest.raises(TypeError, match="dataset must be one of torchrec_io"):
        tio.make_loader(Other())


def test_attributes_of_the_loader(paths: list[str]) -> None:
    loader = make(paths, "batches")
    assert loader.device is None
    assert make(paths, "batches", device="cpu").device == torch.device("cpu")
    endless = tio.make_loader(tio.TFRecordDataset(paths, SCHEMA, epochs=None), batch_size=4)
    with pytest.raises(TypeError, match="endless"):
        len(endless)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("shuffle", r"RandomSampler\(dataset\)"),
        ("drop_last", "drop_last=True to the dataset"),
        ("batch_sampler", "batch_size=n"),
        ("persistent_workers", "always kept"),
        ("pin_memory_device", "device=device"),
        ("generator", "seed=n"),
        ("batchsize", r"help\(tio.make_loader\)"),
    ],
)
def test_other_arguments_of_data_loaders(paths: list[str], name: str, instead: str) -> None:
    loose: Any = tio.make_loader
    with pytest.raises(TypeError, match=f"make_loader has no argument '{name}': .*{instead}"):
        loose(open_records(paths), **{name: None})


def mark(folder: Path, worker: int) -> None:
    (folder / str(worker)).touch()


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_each_worker_is_initialized(paths: list[str], tmp_path: Path, method: str) -> None:
    loader = make(
        paths,
        "batches",
        2,
        multiprocessing_context=method,
        worker_init_fn=functools.partial(mark, tmp_path),
    )
    ids_of(loader)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


def test_a_slow_worker_is_an_error(paths: list[str]) -> None:
    endless = open_records(paths, batch_size=4, transform=lambda _: time.sleep(600))
    loader = tio.make_loader(endless, num_workers=1, timeout=0.5, multiprocessing_context="fork")
    with pytest.raises(RuntimeError, match=r"timed out after 0\.5 seconds"):
        next(iter(loader))
    with pytest.raises(ValueError, match="timeout is for worker processes"):
        tio.make_loader(endless, timeout=0.5)


# ---- samplers ----


def test_samplers_on_several_ranks(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = tio.TFRecordMapDataset(paths, SCHEMA)

    class Own(Sampler[int]):
        def __iter__(self) -> Iterator[int]:
            return iter([1])

    of_one: list[Any] = [
        RandomSampler(dataset),
        WeightedRandomSampler([1.0] * len(dataset), 4),
        SubsetRandomSampler([1, 2]),
        Own(),
    ]
    for sampler in of_one:
        tio.make_loader(dataset, sampler=sampler)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for sampler in of_one:
        with pytest.raises(ValueError, match=r"each of the 2 ranks its share.*use .*Distributed"):
            tio.make_loader(dataset, sampler=sampler)
    with pytest.raises(ValueError, match=r"sampler must be given .* with 2 ranks: .*Distributed"):
        tio.make_loader(dataset, batch_size=3)
    shared: Any = DistributedSampler(dataset, num_replicas=2, rank=0, shuffle=False)
    for sampler in (shared, SequentialSampler(dataset), [1, 2]):
        loader = tio.make_loader(dataset, sampler=sampler, batch_size=3)
        assert [n for batch in loader for n in batch["id"]] == list(sampler)


def test_a_random_sampler_cannot_be_resumed_in_an_epoch(paths: list[str]) -> None:
    dataset = tio.TFRecordMapDataset(paths, SCHEMA)
    for batch_size, sampler in (
        (None, RandomSampler(dataset)),
        (4, RandomSampler(dataset, generator=torch.Generator().manual_seed(0))),
        (4, WeightedRandomSampler([1.0] * len(dataset), 40)),
    ):
        loader = tio.make_loader(dataset, batch_size=batch_size, sampler=sampler)
        loader.load_state_dict(loader.state_dict())  # at the start
        next(iter(loader))
        state = loader.state_dict()
        with pytest.raises(tio.StateMismatchError, match="another order each time: use a sampler"):
            loader.load_state_dict(state)
        with pytest.raises(tio.StateMismatchError, match="another order each time"):
            loader.resume(epoch=0, batches=1)
