"""Meshes: which processes share the records, and programs in which the global rank is wrong."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import torchrec_io as tio
from tests.support.datasets import ids_of, open_records, write_files
from tests.support.loading import error_of
from tests.support.meshes import being_rank, mesh_of

pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")

DP = ("dp_replicate", "dp_shard")


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_files(tmp_path_factory.mktemp("mesh"), [13, 0, 7, 10])


def make(paths: list[str], **options: Any) -> Any:
    options = {"batch_size": 4, "shuffle": True, "uneven": "keep", **options}
    return open_records(paths, **options)


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    data=st.data(),
)
def test_the_rank_counts_coordinates_row_by_row(
    paths: list[str], sizes: list[int], data: st.DataObject
) -> None:
    world = math.prod(sizes)
    rank = data.draw(st.integers(0, world - 1))
    chosen = data.draw(st.sets(st.integers(0, len(sizes) - 1), min_size=1).map(sorted))
    coordinates: list[int] = []
    rest = rank
    for size in reversed(sizes):
        rest, coordinate = divmod(rest, size)
        coordinates.insert(0, coordinate)
    expected, count = 0, 1
    for dimension in chosen:
        expected = expected * sizes[dimension] + coordinates[dimension]
        count *= sizes[dimension]
    with being_rank(rank, world):
        mesh = mesh_of(**{f"axis{number}": size for number, size in enumerate(sizes)})
        found = make(paths, mesh=mesh[tuple(f"axis{number}" for number in chosen)])
    assert ids_of(found) == ids_of(make(paths, rank=expected, world_size=count))


@pytest.mark.filterwarnings("ignore:Slicing a flattened dim:UserWarning")
def test_a_flattened_mesh(paths: list[str]) -> None:
    with being_rank(5, 8):
        mesh = mesh_of(dp_replicate=2, dp_shard=2, cp=2)
        mesh[DP]._flatten("dp")
        assert ids_of(make(paths, mesh=mesh["dp"])) == ids_of(make(paths, mesh=mesh[DP]))


def test_a_process_group(paths: list[str]) -> None:
    with being_rank(3, 4):
        group = distributed.new_group([1, 3])
        assert ids_of(make(paths, mesh=group)) == ids_of(make(paths, rank=1, world_size=2))
        whole: Any = distributed.group.WORLD
        assert ids_of(make(paths, mesh=whole)) == ids_of(make(paths, rank=3, world_size=4))


LOADERS = [DataLoader, StatefulDataLoader, tio.make_loader]


def load(make_loader: Any, dataset: Any, method: str) -> Any:
    options = {} if make_loader is tio.make_loader else {"batch_size": None}
    return make_loader(dataset, num_workers=1, multiprocessing_context=method, **options)


@pytest.mark.parametrize(
    ("make_loader", "method"), [*((each, "fork") for each in LOADERS), (tio.make_loader, "spawn")]
)
def test_workers_read_the_share_of_their_process(
    paths: list[str], make_loader: Any, method: str
) -> None:
    with being_rank(2, 4):
        dataset = make(paths, mesh=mesh_of(dp=2, tp=2)["dp"])
        found = ids_of(load(make_loader, dataset, method))
    assert found == ids_of(make(paths, rank=1, world_size=2))


def test_changes(paths: list[str]) -> None:
    other = ids_of(make(paths, rank=1, world_size=2))
    everything = ids_of(make(paths, rank=0, world_size=1))
    with being_rank(2, 4):
        mesh = mesh_of(dp=2, tp=2)["dp"]
        dataset = make(paths, mesh=mesh)
        assert "rank 1 of 2 (of its mesh)" in repr(dataset)
        assert ids_of(make(paths, rank=0, world_size=2, mesh=None).replace(mesh=mesh)) == other
        assert ids_of(dataset.replace(rank=0, world_size=1)) == everything
        assert ids_of(dataset.replace(batch_size=4)) == other
        assert ids_of(dataset.replace(rank=0, world_size=1).replace(mesh=None)) == everything
        assert ids_of(pickle.loads(pickle.dumps(dataset))) == other
        with pytest.raises(ValueError, match="write mesh="):
            next(iter(dataset.replace(mesh=None)))


def test_mixtures(paths: list[str]) -> None:
    options: dict[str, Any] = {"weights": [0.5, 0.5], "stop": "all_exhausted"}
    expected = ids_of(tio.mix([make(paths, rank=1, world_size=2)] * 2, **options))
    with being_rank(2, 4):
        mesh = mesh_of(dp=2, tp=2)["dp"]
        assert ids_of(tio.mix([make(paths, mesh=mesh)] * 2, **options)) == expected
        parts = [make(paths), make(paths, rank=0, world_size=1)]
        assert ids_of(tio.mix(parts, mesh=mesh, **options)) == expected
        assert ids_of(tio.mix(parts, rank=1, world_size=2, **options)) == expected


# ---- wrong arguments ----


def test_a_mesh_and_a_rank(paths: list[str]) -> None:
    with being_rank(2, 4):
        mesh = mesh_of(dp=2, tp=2)["dp"]
        for given_ranks in ({"rank": 0, "world_size": 2}, {"rank": 0}, {"world_size": 2}):
            with pytest.raises(ValueError, match="rank and world_size must be None with a mesh"):
                make(paths, mesh=mesh, **given_ranks)
            with pytest.raises(ValueError, match="rank and world_size must be None with a mesh"):
                make(paths).replace(mesh=mesh, **given_ranks)


@pytest.mark.parametrize("value", ["dp", 2, (0, 2), DeviceMesh])
def test_no_mesh(paths: list[str], value: Any) -> None:
    with pytest.raises(ValueError, match=r"mesh must be a DeviceMesh or a ProcessGroup .*, got"):
        make(paths, mesh=value)


def test_a_process_outside_of_the_mesh(paths: list[str]) -> None:
    with being_rank(3, 4):
        for mesh in (DeviceMesh("cpu", [0, 1]), distributed.new_group([0, 1])):
            with pytest.raises(ValueError, match="mesh must contain this process, but rank 3 of 4"):
                make(paths, mesh=mesh)


@pytest.mark.parametrize(
    ("sizes", "advice"),
    [
        ({"dp": 2, "tp": 2}, r"dp=2, tp=2: write mesh=mesh\['dp'\]"),
        ({"tp": 4, "dp": 1}, "tp=4: write rank=0, world_size=1"),
        ({"replicate": 2, "dp_cp": 2}, r"mesh\['replicate'\]"),
        ({"tensor_parallel": 4}, "rank=0, world_size=1"),
    ],
)
def test_dimensions_that_do_not_divide_the_data(
    paths: list[str], sizes: dict[str, int], advice: str
) -> None:
    with being_rank(0, 4), pytest.raises(ValueError, match="must have only dimensions") as caught:
        make(paths, mesh=mesh_of(**sizes))
    assert caught.match(advice)


# ---- programs without the argument ----


# The dimensions of the meshes of a program, and what to write; None if the global rank is right.
PROGRAMS: dict[str, tuple[list[dict[str, int]], str | None]] = {
    "none": ([], None),
    "data parallel": ([{"dp": 4}], None),
    "hybrid": ([{"dp_replicate": 2, "dp_shard": 2}], None),
    "Lightning, data parallel": ([{"data_parallel": 4, "tensor_parallel": 1}], None),
    "a dimension of one process": ([{"fsdp": 4, "cp": 1, "tp": 1}], None),
    "torchtitan with experts": (
        [
            {"world": 4},
            {"pp": 1, "batch": 4, "cp": 1, "tp": 1},
            {"pp": 1, "dp_replicate": 1, "efsdp": 2, "ep": 2},
        ],
        None,
    ),
    "tensor parallel": ([{"dp": 2, "tp": 2}], r"mesh=mesh['dp'] in"),
    "pipelines": ([{"pp": 2, "dp_replicate": 1, "dp_shard": 2}], "mesh=mesh['dp_shard'] in"),
    "hybrid with others": (
        [{"dp_replicate": 2, "dp_shard": 1, "cp": 1, "tp": 2}],
        "mesh=mesh['dp_replicate'] in",
    ),
    "Lightning": ([{"data_parallel": 2, "tensor_parallel": 2}], "mesh=mesh['data_parallel'] in"),
    "torchtitan": (
        [{"world": 4}, {"pp": 1, "batch": 2, "cp": 1, "tp": 2}, {"fsdp": 2, "tp": 2}],
        "mesh=mesh['batch'] in",
    ),
    "all tensor parallel": ([{"tp": 4}], "rank=0, world_size=1 in"),
    "unknown": ([{"rows": 2, "columns": 2}], "mesh=mesh[...] with"),
}


def problem_of(dataset: Any) -> str | None:
    try:
        next(iter(dataset))
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_default_rank(paths: list[str], name: str) -> None:
    meshes, remedy = PROGRAMS[name]
    with being_rank(1, 4):
        made = [mesh_of(**sizes) for sizes in meshes]
        dataset = make(paths)
        assert "rank 1 of 4" in repr(dataset)
        problem = problem_of(dataset)
        if remedy is None:
            assert problem is None
            assert ids_of(dataset) == ids_of(make(paths, rank=1, world_size=4))
        else:
            assert problem is not None
            assert f"write {remedy}" in problem
            assert problem.startswith("this program has a DeviceMesh of ")
        assert problem_of(make(paths, rank=0, world_size=1)) is None
        del made


@pytest.mark.parametrize(("shape", "is_right"), [((4,), True), ((2, 2), False)])
def test_a_mesh_without_names(paths: list[str], shape: tuple[int, ...], is_right: bool) -> None:
    with being_rank(1, 4):
        mesh = init_device_mesh("cpu", shape)
        assert (problem_of(make(paths)) is None) == is_right
        assert problem_of(make(paths, mesh=mesh)) is None


def test_meshes_of_other_processes_do_not_count(paths: list[str]) -> None:
    with being_rank(3, 4):
        mesh = DeviceMesh("cpu", [0, 1], mesh_dim_names=("tp",))
        assert problem_of(make(paths)) is None
        del mesh


@pytest.mark.parametrize(
    ("make_loader", "method"), [*((each, "fork") for each in LOADERS), (DataLoader, "spawn")]
)
def test_workers_refuse_the_default_rank(paths: list[str], make_loader: Any, method: str) -> None:
    with being_rank(1, 4):
        mesh = mesh_of(dp=2, tp=2)
        error = error_of(load(make_loader, make(paths), method))
        del mesh
    assert isinstance(error, ValueError)
    assert "write mesh=mesh['dp']" in str(error)


def test_map_style_datasets_have_no_rank(paths: list[str]) -> None:
    with being_rank(1, 4):
        mesh = mesh_of(dp=2, tp=2)
        assert len(tio.TFRecordMapDataset(paths)) == 30
        with pytest.raises(TypeError, match="mesh"):
            tio.TFRecordMapDataset(paths, mesh=mesh["dp"])  # type: ignore[call-overload]
