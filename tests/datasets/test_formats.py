"""Datasets of formats other than TFRecord: order, ranks, workers, splits, resuming, keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.formats import COUNT, COUNTS, make, write_kinds

KINDS = ["lines", "fixed", "whole", "own"]
SHUFFLES = [False, tio.Shuffle(block=4, window=9)]
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
    mixed = tio.mix([halves[0], halves[1]], weights=[0.5, 0.5], stop="each_once", batch_size=4)
    assert sorted(flat(mixed)) == ALL


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
