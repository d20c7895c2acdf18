"""TFRecordStream: records read from front to back, exactly once; unsupported options."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import SCHEMA, numbers_of, record, write_files
from tests.support.loading import error_of
from tests.support.pipes import feeding
from tests.support.tfrecord import frame
from torchrec_io._records.index_cache import cache_path
from torchrec_io._records.stream_reader import StreamReader

SIZES = [30, 0, 7, 13]
COUNT = sum(SIZES)


def make(paths: Any, **options: Any) -> tio.TFRecordStream:
    return tio.TFRecordStream(paths, SCHEMA, **{"batch_size": 4, **options})


def indexed(paths: Any, **options: Any) -> tio.TFRecordDataset:
    return tio.TFRecordDataset(paths, SCHEMA, **{"batch_size": 4, **options})


def values_of(items: Any) -> list[Any]:
    """Return the values of a batch or sample as lists, numbers and bytes."""
    values = (items[name] for name in items)
    return [value if isinstance(value, bytes) else value.tolist() for value in values]


def test_no_index_is_built(tmp_path: Path) -> None:
    (path,) = write_files(tmp_path, [5])
    assert numbers_of(make(path)) == list(range(5))
    assert os.listdir(tmp_path) == [os.path.basename(path)]
    assert not cache_path(path).exists()


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_end_of_a_stream_is_reported_after_full_batches(tmp_path: Path, threads: int) -> None:
    frames = [bytearray(frame(record(number))) for number in range(16)]
    frames[13][-1] ^= 1  # its batch is refilled from the last one, which precedes the damage
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"".join(frames) + frame(record(16))[:9])
    errors: list[tio.TorchRecIOError] = []
    dataset = make(path, on_error=errors.append, num_threads=threads)
    assert numbers_of(dataset) == [*range(13), 14, 15]
    assert [error.record for error in errors] == [13, 16]
    assert dataset.skipped == 2


def test_endless_stream_without_valid_records_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frame(b"\xff") * 3)
    for make_any in (make, indexed):
        dataset = make_any(path, on_error=lambda _: None, epochs=None)
        with pytest.raises(tio.DecodeError, match="epoch 0 yielded nothing"):
            next(iter(dataset))


@given(
    bad=st.dictionaries(st.integers(0, COUNT - 1), st.booleans()),
    cut=st.integers(0, 20),
    features=st.sampled_from([["id"], ["id", "name", "tokens"]]),
    threads=st.integers(1, 3),
    batch_size=st.sampled_from([None, 1, 4]),
    shuffle=st.sampled_from([False, 8]),
)
def test_batches_of_runs_are_those_that_are_loaded_alone(
    tmp_path_factory: pytest.TempPathFactory,
    *,
    bad: dict[int, bool],
    cut: int,
    features: list[str],
    threads: int,
    **options: Any,
) -> None:
    """Small batches are loaded together, by one native call.

    Records may be damaged or no messages, and the file may end inside a record.
    """
    frames = []
    for number in range(COUNT):
        framed = bytearray(frame(b"\xff" if number in bad else record(number)))
        framed[-1] ^= bad.get(number, False)  # does not match its checksum
        frames.append(bytes(framed))
    path = tmp_path_factory.mktemp("bad") / "a.tfrecord"
    content = b"".join(frames)
    path.write_bytes(content[: len(content) - cut])
    schema = {name: SCHEMA[name] for name in features}

    def read(threads: int) -> tuple[list[Any], list[str]]:
        told: list[str] = []
        dataset = tio.TFRecordStream(
            str(path),
            schema,
            with_key=True,
            num_threads=threads,
            on_error=lambda error: told.append(str(error)),
            **options,
        )
        found = [(key, values_of(items)) for key, items in dataset]
        # Where a shuffled file ends early, the order of errors depends on what is loaded ahead.
        return found, sorted(told)

    found = read(threads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StreamReader, "open_run", lambda *_: [])
        assert found == read(1)
    assert found[1] or not (bad or cut)


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_named_pipe(tmp_path: Path, compression: str | None, threads: int) -> None:
    (path,) = write_files(tmp_path, [1000], compression)
    with feeding(tmp_path / "pipe", [Path(path).read_bytes()]) as pipe:
        dataset = make(pipe, num_threads=threads)
        assert numbers_of(dataset) == list(range(1000))
        with pytest.raises(ValueError, match="it can be read only once"):
            list(dataset)


def test_only_one_process_can_read_a_pipe(tmp_path: Path) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)  # opening it would wait for a writer
    with pytest.raises(ValueError, match="only one process can read it, not 2"):
        list(make(pipe, rank=0, world_size=2, uneven="keep"))
    with pytest.raises(ValueError, match="uneven must be 'keep'"):
        list(make(pipe, rank=0, world_size=2))
    for workers in (1, 2):
        error = error_of(DataLoader(make(pipe), batch_size=None, num_workers=workers))
        assert isinstance(error, ValueError)
        assert "is a pipe: read it with num_workers=0" in str(error)


def test_growing_file_does_not_move_records_of_others(tmp_path: Path) -> None:
    paths = write_files(tmp_path, [4, 4])
    seen = []
    for share in range(3):
        seen += numbers_of(make(paths, rank=share, world_size=3, uneven="keep"))
        with open(paths[0], "ab") as file:
            file.write(frame(record(100 + share)))
    assert [number for number in sorted(seen) if number < 100] == list(range(8))
