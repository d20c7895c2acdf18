"""What a loader that Accelerate prepares can read. tests/trainers counts records in real runs."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
import torch
from torch.utils.data import ChainDataset, DataLoader

import torchrec_io as tio
from tests.support.datasets import write_files

NUMBERS = {"id": tio.FixedLenFeature([], "int64")}
STRINGS = {**NUMBERS, "name": tio.FixedLenFeature([], "string")}


def only_ids(samples: Any) -> Any:
    return torch.stack([sample["id"] for sample in samples])


def ids_of(batch: Any) -> Any:
    return batch["id"]


# Each case makes a DataLoader. None stands for Accelerate's default, which dispatches batches.
CASES: dict[str, tuple[bool | None, Callable[[Any], Any]]] = {
    "samples": (None, lambda paths: DataLoader(tio.TFRecordDataset(paths, NUMBERS), 5)),
    "samples, whole": (False, lambda paths: DataLoader(tio.TFRecordDataset(paths, STRINGS), 5)),
    "strings": (None, lambda paths: DataLoader(tio.TFRecordDataset(paths, STRINGS), 5)),
    "strings, collated": (
        None,
        lambda paths: DataLoader(tio.TFRecordDataset(paths, STRINGS), 5, collate_fn=only_ids),
    ),
    "single samples": (None, lambda paths: DataLoader(tio.TFRecordDataset(paths, NUMBERS), None)),
    "a batch": (
        None,
        lambda paths: DataLoader(tio.TFRecordDataset(paths, NUMBERS, batch_size=5), None),
    ),
    "a batch, collated": (
        None,
        lambda paths: DataLoader(
            tio.TFRecordDataset(paths, NUMBERS, batch_size=5), None, collate_fn=ids_of
        ),
    ),
    "batches of batches": (
        False,
        lambda paths: DataLoader(tio.TFRecordDataset(paths, NUMBERS, batch_size=5), 2),
    ),
    "batches of batches, in another dataset": (
        None,
        lambda paths: DataLoader(
            ChainDataset([tio.TFRecordDataset(paths, NUMBERS, batch_size=5)]), 2
        ),
    ),
}


def outcomes_of(paths: list[str]) -> dict[str, str | list[int]]:
    """Iterate the prepared loader of each case; return the numbers of its records or its error."""
    from accelerate import Accelerator  # noqa: PLC0415  # loaded in the process of its own only
    from accelerate.state import AcceleratorState, GradientState, PartialState  # noqa: PLC0415
    from accelerate.utils import DataLoaderConfiguration  # noqa: PLC0415

    outcomes: dict[str, str | list[int]] = {}
    for name, (dispatches, make) in CASES.items():
        config = DataLoaderConfiguration(dispatch_batches=dispatches)
        loader = Accelerator(cpu=True, dataloader_config=config).prepare(make(paths))
        try:
            batches = [batch if torch.is_tensor(batch) else batch["id"] for batch in loader]
            outcomes[name] = torch.cat(batches).tolist()
        except ValueError as error:
            outcomes[name] = str(error)
        for state in (AcceleratorState, GradientState, PartialState):
            state._shared_state.clear()
    return outcomes


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | list[int]]:
    """Outcomes of all cases. An Accelerator belongs to a process, so they run in another one."""
    paths = write_files(tmp_path_factory.mktemp("accelerate"), [12, 8])
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(outcomes_of, paths).result()


@pytest.mark.parametrize(
    "name", ["samples", "samples, whole", "strings, collated", "a batch, collated"]
)
def test_each_record_comes_once(outcomes: dict[str, Any], name: str) -> None:
    assert outcomes[name] == list(range(20))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("strings", "Accelerate cannot dispatch name from"),
        ("single samples", "Accelerate cannot split a single sample"),
        ("a batch", "Accelerate cannot split a Batch"),
        ("batches of batches", "the dataset yields batches, which DataLoader(batch_size=2)"),
        (
            "batches of batches, in another dataset",
            "the dataset yields batches, which DataLoader(batch_size=2)",
        ),
    ],
)
def test_what_cannot_be_divided_is_an_error_that_says_what_to_write(
    outcomes: dict[str, Any], name: str, problem: str
) -> None:
    assert outcomes[name].startswith(problem)
    assert "tio.make_loader(dataset" in outcomes[name]
