"""Datasets on the meshes of Accelerate's ``ParallelismConfig``."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import write_files
from tests.support.meshes import being_rank

SCHEMA = {"id": tio.FixedLenFeature([], "int64")}
RANK = 2  # of 4

# Number of records in the last step that ``gather_for_metrics`` keeps; -1 for all.
REMAINDERS = {
    "all processes share": ({"dp_replicate_size": 2, "dp_shard_size": 2}, 63 % 16),
    "peers read the same": ({"dp_shard_size": 2, "tp_size": 2}, -1),
}
# Sizes of dimensions, how the dataset is read, and the records that come first, or what the error
# advises.
BOTH = {"dp_shard_size": 2, "tp_size": 2}
CASES: dict[str, tuple[dict[str, int], str, list[int] | str]] = {
    "mesh": (BOTH, "make_loader, mesh", [4, 5, 6, 7]),
    "mesh of two dimensions": (
        {"dp_replicate_size": 2, "dp_shard_size": 2},
        "make_loader, mesh",
        [8, 9, 10, 11],
    ),
    "mesh and context": ({"dp_shard_size": 2, "cp_size": 2}, "make_loader, mesh", [4, 5, 6, 7]),
    "no mesh": (BOTH, "make_loader", "write mesh=mesh['dp_shard']"),
    "no mesh, data parallel": (
        {"dp_replicate_size": 2, "dp_shard_size": 2},
        "make_loader",
        [8, 9, 10, 11],
    ),
    "prepared": (BOTH, "prepare, shard", [4, 5, 6, 7]),
    "prepared, context": ({"dp_shard_size": 2, "cp_size": 2}, "prepare, shard", [4, 5, 6, 7]),
    "prepared, mesh": (BOTH, "prepare, shard, mesh", "world_size must be None"),
    "dispatched": (BOTH, "prepare", "dispatch_batches=False"),
    "dispatched, context": ({"dp_shard_size": 2, "cp_size": 2}, "prepare", "mesh=accelerator"),
}


def outcomes_of(paths: list[str]) -> dict[str, list[int] | str | int]:
    """Return the first batch of each case, or its error; and the remainders."""
    from accelerate import Accelerator, ParallelismConfig  # noqa: PLC0415  # in a process of its own only
    from accelerate.data_loader import prepare_data_loader  # noqa: PLC0415
    from accelerate.state import AcceleratorState, GradientState, PartialState  # noqa: PLC0415

    def open_loader(config: Any, mesh: Any, how: str) -> Any:
        given = {"mesh": mesh[tuple(config.dp_dim_names)]} if "mesh" in how else {}
        if "make_loader" in how:
            return tio.make_loader(tio.TFRecordDataset(paths, SCHEMA, batch_size=4, **given))
        loader = DataLoader(tio.TFRecordDataset(paths, SCHEMA, **given), 4)
        # As Accelerator.prepare does. An Accelerator has meshes on accelerators only.
        return prepare_data_loader(
            loader,
            num_processes=4,
            process_index=RANK,
            put_on_device=True,
            dispatch_batches="shard" not in how,
            torch_device_mesh=mesh,
        )

    def remainder_of(config: Any, mesh: Any) -> int:
        options: dict[str, Any] = {"split": "[:63]", "batch_size": 4, "uneven": "pad"}
        data_mesh = mesh[tuple(config.dp_dim_names)]
        for _ in tio.make_loader(tio.TFRecordDataset(paths, SCHEMA, mesh=data_mesh, **options)):
            remainder: int = GradientState().remainder
        return remainder

    outcomes: dict[str, list[int] | str | int] = {}
    cases = {name: case[:2] for name, case in CASES.items()}
    cases |= {name: (sizes, "remainder") for name, (sizes, _) in REMAINDERS.items()}
    for name, (sizes, how) in cases.items():
        # A dispatcher reads in the first process.
        with being_rank(0 if "dispatched" in name else RANK, 4):
            Accelerator(cpu=True)
            config = ParallelismConfig(**sizes)
            mesh = config.build_device_mesh("cpu")
            try:
                if how == "remainder":
                    outcomes[name] = remainder_of(config, mesh)
                    continue
                outcomes[name] = next(iter(open_loader(config, mesh, how)))["id"].tolist()
            except ValueError as error:
                outcomes[name] = str(error)
            finally:
                for state in (AcceleratorState, GradientState, PartialState):
                    state._shared_state.clear()
                del mesh
    return outcomes


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int] | str | int]:
    paths = write_files(tmp_path_factory.mktemp("accelerate"), [40, 24])
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(outcomes_of, paths).result()


@pytest.mark.parametrize("name", CASES)
def test_what_a_process_reads(outcomes: dict[str, list[int] | str | int], name: str) -> None:
    expected = CASES[name][-1]
    if isinstance(expected, str):
        assert expected in str(outcomes[name])
    else:
        assert outcomes[name] == expected


@pytest.mark.parametrize("name", REMAINDERS)
def test_records_that_metrics_keep(outcomes: dict[str, list[int] | str | int], name: str) -> None:
    assert outcomes[name] == REMAINDERS[name][1]
