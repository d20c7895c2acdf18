"""``Loader.resume``: the next iteration starts after a number of batches."""

from __future__ import annotations

from pathlib import Path

import pytest

import torchrec_io as tio
from tests.support.datasets import SCHEMA, ids_of, open_records, write_files


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


def test_a_map_style_dataset(tmp_path: Path) -> None:
    dataset = tio.TFRecordMapDataset(write_files(tmp_path, [50]), SCHEMA)
    loader = tio.make_loader(dataset, batch_size=10)
    loader.resume(epoch=0, batches=3)
    assert ids_of(loader) == [list(range(30, 40)), list(range(40, 50))]
    assert len(ids_of(loader)) == 5
    loader.resume(epoch=0, batches=5)
    assert len(ids_of(loader)) == 5


def test_what_cannot_be_counted(tmp_path: Path) -> None:
    paths = write_files(tmp_path, [50])
    stream = tio.make_loader(open_records(paths, stream=True, batch_size=10))
    with pytest.raises(TypeError, match="a stream cannot be resumed by a number of batches"):
        stream.resume(epoch=0, batches=1)


def test_nothing_starts_before_the_first_item(tmp_path: Path) -> None:
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
