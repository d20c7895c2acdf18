"""Datasets of formats other than TFRecord: order, ranks, workers, splits, resuming, keys."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

import torchrec_io as tio
from tests.support.formats import COUNT, COUNTS, Netstrings, make, write_kinds
from tests.support.states import rest_of, states_of, through_json
from tests.support.tfrecord import write_tfrecord

KINDS = ["lines", "fixed", "whole", "own"]
SHUFFLES = [
    False,
    True,
    10,
    tio.Shuffle(block=4, window=9),
    tio.Shuffle(block=4, window=9, lanes=2),
]
ALL = list(range(COUNT))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return write_kinds(tmp_path_factory.mktemp("kinds"))


def flat(batches: Any) -> list[int]:
    return [number for batch in batches for number in batch]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.parametrize("shuffle", SHUFFLES, ids=str)
def test_each_record_comes_once_an_epoch(files: dict[str, Any], kind: str, shuffle: Any) -> None:
    dataset = make(kind, files[kind], shuffle=shuffle, batch_size=4, epochs=2)
    assert dataset.num_records == COUNT
    seen = flat(dataset)
    assert sorted(seen[:COUNT]) == sorted(seen[COUNT:]) == ALL
    assert (seen[:COUNT] == ALL) == (shuffle is False)
    following = flat(dataset)
    assert sorted(following[COUNT:]) == ALL
    assert (following != seen) == (shuffle is not False)
    again = make(kind, files[kind], shuffle=shuffle, batch_size=4, epochs=2, num_threads=1)
    assert flat(again) == seen


@pytest.mark.parametrize(("shuffle", "batch_size"), [(False, None), (True, 4)])
def test_resuming_at_every_step_yields_the_remaining_records(
    files: dict[str, Any], kind: str, shuffle: bool, batch_size: int | None
) -> None:
    options = {"shuffle": shuffle, "batch_size": batch_size, "num_threads": 1}
    dataset = make(kind, files[kind], **options)
    whole, following = list(dataset), list(dataset)
    dataset.set_epoch(0)
    for given, state in states_of(dataset):
        other = make(kind, files[kind], **options)
        other.load_state_dict(state)
        assert list(other) == rest_of(whole, following, given)


def test_state_belongs_to_its_files(files: dict[str, Any], kind: str) -> None:
    state = make(kind, files[kind], batch_size=4).state_dict()
    with pytest.raises(tio.StateMismatchError, match="files"):
        make(kind, files[kind][1:], batch_size=4).load_state_dict(state)


@pytest.mark.parametrize("world_size", [1, 3])
def test_records_are_partitioned_over_ranks_and_workers(
    files: dict[str, Any], kind: str, world_size: int
) -> None:
    seen = []
    for rank in range(world_size):
        dataset = make(
            kind,
            files[kind],
            batch_size=3,
            shuffle=True,
            rank=rank,
            world_size=world_size,
            uneven="keep",
        )
        workers = rank % 3
        loaded = flat(DataLoader(dataset, batch_size=None, num_workers=workers))
        assert len(loaded) == sum(map(len, dataset))
        seen += loaded
    assert sorted(seen) == ALL


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
def test_a_stateful_loader_resumes(files: dict[str, Any], kind: str) -> None:
    def loader() -> Any:
        dataset = make(kind, files[kind], batch_size=4, shuffle=True)
        return StatefulDataLoader(dataset, batch_size=None, num_workers=2)

    first = loader()
    batches = iter(first)
    seen = [next(batches) for _ in range(3)]
    state = through_json(first.state_dict())
    rest = list(batches)
    second = loader()
    second.load_state_dict(state)
    assert list(second) == rest
    assert sorted(flat(seen + rest)) == ALL


def test_parts_are_disjoint_and_exhaustive(files: dict[str, Any], kind: str) -> None:
    dataset = make(kind, files[kind], shuffle=True)
    parts = [list(part) for part in dataset.split(0.5, 0.3, 0.2, seed=3)]
    assert [len(part) for part in parts] == pytest.approx([15.5, 9.3, 6.2], abs=1)
    assert sorted(sum(parts, [])) == ALL  # noqa: RUF017  # three short lists
    assert [sorted(part) for part in parts] == [
        sorted(part) for part in make(kind, files[kind]).split(0.5, 0.3, 0.2, seed=3)
    ]
    groups = dataset.split(0.5, 0.5, group_by=lambda number: number % 4)
    left, right = ({number % 4 for number in part} for part in groups)
    assert not left & right
    assert left | right == {0, 1, 2, 3}
    assert list(make(kind, files[kind], split="[10:13]")) == [10, 11, 12]


def test_other_options(files: dict[str, Any], kind: str) -> None:
    dataset = make(kind, files[kind], batch_size=4, seed=1)
    other = dataset.replace(schema=None, batch_size=None, shuffle=True, seed=7)
    assert type(other) is type(dataset)
    assert sorted(map(int, other)) == ALL
    assert list(other) != list(dataset.replace(schema=None, batch_size=None))
    assert isinstance(next(iter(other)), bytes)
    with pytest.raises(TypeError, match="unexpected keyword argument 'compression'"):
        dataset.replace(compression=None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'batch_tokens'"):
        dataset.replace(batch_tokens=3)


def test_make_loader_and_mix(files: dict[str, Any], kind: str) -> None:
    dataset = make(kind, files[kind], shuffle=True)
    assert sorted(flat(tio.make_loader(dataset, batch_size=4))) == ALL
    halves = dataset.split(0.5, 0.5)
    mixed = tio.mix([halves[0], halves[1]], weights=[0.5, 0.5], stop="all_exhausted", batch_size=4)
    assert sorted(flat(mixed)) == ALL


def test_formats_cannot_be_mixed(files: dict[str, Any], kind: str, tmp_path: Path) -> None:
    other = tio.TFRecordDataset(write_tfrecord(tmp_path / "x", [b"1"]), int)
    with pytest.raises(ValueError, match="differ in record format"):
        tio.mix([make(kind, files[kind]), other], weights=[1, 1])


def test_keys(files: dict[str, Any], kind: str) -> None:
    dataset = make(kind, files[kind], with_key=True, shuffle=True, batch_size=4)
    found = {
        number: key for keys, numbers in dataset for key, number in zip(keys, numbers, strict=True)
    }
    assert [found[number] for number in ALL] == list(keys_of(kind, files[kind]))


def keys_of(kind: str, paths: list[str]) -> Iterator[str]:
    if kind == "whole":
        yield from paths
        return
    for path, count in zip(paths, COUNTS, strict=True):
        for record in range(count):
            # Lines are numbered from 1 including the header. A netstring of 4 bytes takes 7.
            yield f"{path}:{ {'lines': record + 2, 'fixed': record, 'own': 7 * record}[kind] }"


def test_errors_name_the_location(files: dict[str, Any], kind: str) -> None:
    def refuse(record: bytes) -> int:
        if record == b"0015":  # the second record of the third file
            raise ValueError("no good")
        return int(record)

    path = files[kind][15 if kind == "whole" else 2]
    with pytest.raises(tio.DecodeError, match="no good") as caught:
        list(make(kind, files[kind], refuse))
    error = caught.value
    record, offset = {"lines": (1, 14), "fixed": (1, 8), "whole": (0, 0), "own": (1, 7)}[kind]
    assert (error.path, error.record, error.offset) == (path, record, offset)
    skipping = make(kind, files[kind], refuse, on_error="skip", batch_size=4)
    assert flat(skipping) == [number for number in ALL if number != 15]
    assert skipping.skipped == 1


def test_changed_file_is_an_error(kind: str, tmp_path: Path) -> None:
    paths = write_kinds(tmp_path)[kind]
    dataset = make(kind, paths)
    assert list(dataset) == ALL
    changed = Path(paths[0])
    changed.write_bytes(changed.read_bytes() + b"more")
    with pytest.raises(tio.StaleIndexError) as caught:
        list(dataset)
    assert caught.value.path == str(changed)


def test_index_is_required(files: dict[str, Any], kind: str) -> None:
    if kind == "whole":
        with pytest.raises(TypeError, match="index"):
            make(kind, files[kind], index=None)
        return
    with pytest.raises(ValueError, match="use TFRecordStream"):
        make(kind, files[kind], index=None)


def test_signature_has_all_options_of_tfrecord(kind: str) -> None:
    """Options that only TFRecord files have, or that whole files do not need, are missing."""
    others = {"batch_tokens", "length_key", "pack", "verify_crc"}
    if kind == "whole":
        others |= {"index"}
    wanted = inspect.signature(tio.TFRecordDataset).parameters
    classes = {
        "lines": tio.TextLineDataset,
        "fixed": tio.FixedLengthRecordDataset,
        "whole": tio.WholeFileDataset,
        "own": tio.RecordFileDataset,
    }
    given = inspect.signature(classes[kind]).parameters
    assert set(wanted) - set(given) == others
    for name in set(wanted) & set(given):
        assert given[name].default == wanted[name].default
        assert given[name].kind == wanted[name].kind
        assert re.search(rf"^ +{name}: ", classes[kind].__doc__ or "", re.MULTILINE)


class Several(IterableDataset[Any]):
    """Items of several datasets, each with the number of its dataset."""

    def __init__(self, datasets: list[Any]) -> None:
        super().__init__()
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for number, dataset in enumerate(self.datasets):
            for item in dataset:
                yield number, item


def test_workers_that_get_pickled_datasets(files: dict[str, Any]) -> None:
    # Use one process for all datasets, because its start takes seconds.
    datasets = [make(each, files[each], shuffle=True, batch_size=4) for each in KINDS]
    loader = DataLoader(
        Several(datasets), batch_size=None, num_workers=1, multiprocessing_context="forkserver"
    )
    found = list(loader)
    for dataset in datasets:
        dataset.set_epoch(0)
    wanted = [[number, item] for number, dataset in enumerate(datasets) for item in dataset]
    assert found == wanted
    assert isinstance(datasets[-1]._pipeline.records.format, Netstrings)
