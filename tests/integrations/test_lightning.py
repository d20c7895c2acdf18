"""Callbacks for Lightning. tests/trainers has them in real training runs."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import torchrec_io as tio
from tests.support.datasets import SCHEMA, open_records, write_files


def ids(loader: Any) -> list[int]:
    return [number for batch in loader for number in batch["id"].tolist()]


@pytest.mark.parametrize("place", ["itself", "a dict", "a list in a dict"])
@pytest.mark.parametrize("kind", ["dataset", "DataLoader", "make_loader", "DevicePrefetcher"])
def test_set_epoch_reaches_what_is_ours(kind: str, place: str, tmp_path: Path) -> None:
    dataset = open_records(write_files(tmp_path, [50]), shuffle=True, batch_size=10)
    makers: dict[str, Callable[[], Any]] = {
        "dataset": lambda: dataset,
        "DataLoader": lambda: DataLoader(dataset, batch_size=None),
        "make_loader": lambda: tio.make_loader(dataset),
        "DevicePrefetcher": lambda: tio.DevicePrefetcher(dataset, "cpu"),
    }
    loader = makers[kind]()
    others = [DataLoader(tio.TFRecordMapDataset(dataset.paths)), iter(())]
    places = {
        "itself": loader,
        "a dict": {"a": loader},
        "a list in a dict": {"a": [loader, others]},
    }
    trainer: Any = SimpleNamespace(train_dataloader=places[place], current_epoch=7)
    callback: Any = tio.integrations.lightning.SetEpoch()
    callback.on_train_epoch_start(trainer, None)
    found = ids(loader)
    other = dataset.replace()
    other.set_epoch(7)
    assert found == ids(other)
    assert sorted(found) == list(range(50))


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
@pytest.mark.parametrize("load", [DataLoader, StatefulDataLoader])
@pytest.mark.parametrize("trainer", ["lightning.pytorch", "another"])
def test_a_position_that_lightning_cannot_save_is_said_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    load: Any,
    trainer: str,
) -> None:
    for name in ("lightning.pytorch", "pytorch_lightning"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, trainer, sys)
    handler = logging.FileHandler(tmp_path / "log")  # also of the workers
    logger = logging.getLogger("torchrec_io")
    logger.addHandler(handler)
    dataset = tio.TFRecordDataset(write_files(tmp_path, [40]), SCHEMA, batch_size=4)
    loader = load(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork")
    for _ in range(2):
        assert len(list(loader)) == 10
    logger.removeHandler(handler)
    handler.close()
    said = (tmp_path / "log").read_text().count("has no position that Lightning could save")
    assert said == (load is DataLoader and trainer == "lightning.pytorch")


@pytest.mark.slow
def test_lightning_is_loaded_when_it_is_used() -> None:
    code = (
        "import sys, torchrec_io as tio\n"
        "room = tio.integrations\n"
        "assert 'lightning' not in sys.modules\n"
        "assert issubclass(room.lightning.SetEpoch, sys.modules['lightning.pytorch'].Callback)\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)
