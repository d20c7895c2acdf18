"""All ways to load the same files give the same records, resume, and never pass damage on.

The ways are the product of where the bytes come from, what the items are, and who loads them.
"""

from __future__ import annotations

import gzip
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DistributedSampler

import torchrec_io as tio
from tests.support import datasets
from tests.support.datasets import open_records, record
from tests.support.epochs import pause
from tests.support.meshes import being_rank, mesh_of
from tests.support.states import rest_of, through_json
from tests.support.tfrecord import frame
from tests.support.web import web_server

SIZES = [13, 0, 7, 10]
COUNT = sum(SIZES)
# A stored feature under its own name and another one, and others.
SCHEMA = {**datasets.SCHEMA, "number": tio.FixedLenFeature([], "int32", key="id")}
ROWS = [(i, b"record %d" % i, list(range(i % 5)), i) for i in range(COUNT)]
BATCH = 4
DAMAGED = 17  # the fifth record of the third file

SOURCES = ["plain", "gzip", "object", "stream"]
KINDS = ["batches", "samples", "map-style"]
CASES = [
    (source, kind, workers)
    for source, kind, workers in itertools.product(SOURCES, KINDS, [0, 2])
    if (source, kind) != ("stream", "map-style")
]
each_case = pytest.mark.parametrize(("source", "kind", "workers"), CASES)

Files = dict[str, list[str]]  # the paths of each source


def contents(*, damaged: bool) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file."""
    numbers = iter(range(COUNT))
    for part, size in enumerate(SIZES):
        content = b""
        for number in itertools.islice(numbers, size):
            framed = bytearray(frame(record(number)))
            framed[20] ^= damaged and number == DAMAGED
            content += framed
        yield f"data-{part:05}-of-{len(SIZES):05}", content


def write(folder: Path, server: Any, *, damaged: bool) -> Files:
    """Write the files of all sources."""
    files: Files = {source: [] for source in SOURCES}
    for name, content in contents(damaged=damaged):
        for source in SOURCES[:2]:
            path = folder / source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(content) if source == "gzip" else content)
            files[source].append(str(path))
        files["object"].append(server.put(f"/{damaged}/{name}", content))
    return {**files, "stream": files["plain"]}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, Files]]:
    """Yield intact and damaged files."""
    folder = tmp_path_factory.mktemp("matrix")
    with web_server() as server:
        yield {bad: write(folder / str(bad), server, damaged=bad) for bad in (False, True)}


@pytest.fixture
def files(both: dict[bool, Files]) -> Files:
    return both[False]


def open_loader(
    files: Files,
    source: str,
    kind: str,
    workers: int,
    *,
    ranks: tuple[Any, Any] = (0, 1),
    **options: Any,
) -> Any:
    """Return a loader of shuffled items. ``ranks`` is a rank and the number of ranks."""
    rank, world = ranks
    if kind == "map-style":
        numbered: Any = tio.TFRecordMapDataset(files[source], SCHEMA, **options)
        sampler: Any = DistributedSampler(numbered, num_replicas=world, rank=rank, seed=5)
        return tio.make_loader(numbered, batch_size=BATCH, sampler=sampler, num_workers=workers)
    dataset = open_records(
        files[source],
        SCHEMA,
        stream=source == "stream",
        batch_size=BATCH if kind == "batches" else None,
        shuffle=10 if source == "stream" else True,
        seed=5,
        rank=rank,
        world_size=world,
        uneven="keep",
        **options,
    )
    return tio.make_loader(dataset, num_workers=workers)


def rows_of(items: Any) -> list[list[Any]]:
    """Return the values of the records of each item."""
    found = []
    for item in items:
        values = [item[name] for name in SCHEMA]
        if item["id"].ndim:
            found.append(list(zip(*(each.tolist() for each in values), strict=True)))
        else:
            id_, name, tokens, number = values
            found.append([(int(id_), name, tokens.tolist(), int(number))])
    return found


def flat(items: list[list[Any]]) -> list[Any]:
    return sorted(itertools.chain(*items))


@each_case
def test_epochs(files: Files, source: str, kind: str, workers: int) -> None:
    loader = open_loader(files, source, kind, workers)
    # Samples of workers come in the order in which DataLoader asks the workers.
    order = workers if kind == "samples" or source == "stream" else 0
    reference = open_loader(files, source if source == "stream" else "plain", kind, order)
    found = []
    for epoch in range(2):
        reference.set_epoch(epoch)
        found.append(rows_of(loader))
        assert flat(found[-1]) == ROWS
        assert found[-1] == rows_of(reference)
    assert found[0] != found[1]


@each_case
def test_resuming_at_each_step(files: Files, source: str, kind: str, workers: int) -> None:
    loader = open_loader(files, source, kind, workers)
    whole, following = rows_of(loader), rows_of(loader)
    every = {("samples", 2): 7, ("batches", 2): 2, ("map-style", 2): 2}.get((kind, workers), 1)
    for taken in range(0, len(whole), every):
        begun = open_loader(files, source, kind, workers)
        assert rows_of(itertools.islice(begun, taken)) == whole[:taken]
        resumed = open_loader(files, source, kind, workers)
        resumed.load_state_dict(through_json(begun.state_dict()))
        assert rows_of(resumed) == rest_of(whole, following, taken)
        if taken in (0, every):
            assert rows_of(resumed) == following


@each_case
def test_another_world_size(files: Files, source: str, kind: str, workers: int) -> None:
    """Three ranks continue where two were. Where that is not possible, they begin an epoch."""
    state, seen = None, []
    if kind != "map-style" and source != "stream" and not (kind == "samples" and workers):
        for rank in range(2):
            begun = open_loader(files, source, kind, workers, ranks=(rank, 2))
            seen += rows_of(itertools.islice(begun, 2 if kind == "batches" else 8))
            state = through_json(begun.state_dict())
        assert len(flat(seen)) == 16
    for rank in range(3):
        resumed = open_loader(files, source, kind, workers, ranks=(rank, 3))
        if state is not None:
            resumed.load_state_dict(state)
        seen += rows_of(resumed)
    assert flat(seen) == ROWS


@pytest.mark.parametrize(
    ("source", "kind", "workers"), [case for case in CASES if case[1] != "map-style"]
)
def test_a_mesh(files: Files, source: str, kind: str, workers: int) -> None:
    """Peers outside of the mesh read the records of one rank of two."""
    for rank in (1, 2):
        expected = rows_of(open_loader(files, source, kind, workers, ranks=(rank // 2, 2)))
        with being_rank(rank, 4):
            mesh = mesh_of(dp=2, tp=2)["dp"]
            loader = open_loader(files, source, kind, workers, ranks=(None, None), mesh=mesh)
            assert rows_of(loader) == expected


@each_case
def test_a_damaged_record(both: dict[bool, Files], source: str, kind: str, workers: int) -> None:
    files = both[True]
    seen = []
    with pytest.raises(tio.CorruptRecordError, match="does not match its checksum") as caught:
        for item in open_loader(files, source, kind, workers):
            seen += rows_of([item])
    assert all(row in ROWS and row[0] != DAMAGED for row in flat(seen))
    assert (caught.value.path, caught.value.record) == (files[source][2], 4)
    if kind != "map-style":  # which have no other way: a number is a record
        skipping = open_loader(files, source, kind, workers, on_error="skip")
        assert flat(rows_of(skipping)) == [row for row in ROWS if row[0] != DAMAGED]


def delayed(item: Any) -> Any:
    pause()
    return item


@pytest.mark.parametrize("runs", [3, pytest.param(50, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", KINDS)
def test_loops_that_are_left_at_any_moment(files: Files, kind: str, runs: int) -> None:
    """What the loop took counts, however far workers are ahead."""
    reference = open_loader(files, "plain", kind, 2)
    whole, following = rows_of(reference), rows_of(reference)
    for run in range(runs):
        begun = open_loader(files, "plain", kind, 2, transform=delayed)
        taken = random.Random(run).randrange(len(whole) + 1)
        for expected, item in zip(whole[:taken], begun, strict=False):
            assert rows_of([item]) == [expected]
            pause()
        resumed = open_loader(files, "plain", kind, 2, transform=delayed)
        resumed.load_state_dict(through_json(begun.state_dict()))
        assert rows_of(resumed) == rest_of(whole, following, taken)
