"""Tasks that are run again, because the first process was lost, change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.cluster.local_ray import LocalRay
from tests.cluster.test_conversion import KINDS
from tests.cluster.test_resharding import RECORDS, contents
from tests.cluster.test_verification import shown
from tests.support import every_kind
from tests.support.tfrecord import write_tfrecord
from torchrec_io._records.verify import verify_file
from torchrec_io.cluster import tasks


@pytest.fixture(autouse=True)
def runs(local_ray: LocalRay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each task twice."""
    monkeypatch.setattr(tasks, "TASK_BYTES", 500)
    local_ray.runs = 2


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Write files, of which one has an index and a damaged record."""
    found = [write_tfrecord(tmp_path / f"in{number}", RECORDS) for number in range(3)]
    content = bytearray(found[0].read_bytes())
    content[-1] ^= 1
    found[0].write_bytes(content)
    tio.RecordIndex.build(found[0]).save()
    return found


WRITERS: dict[str, dict[str, Any]] = {
    "reshard": {"num_shards": 3},
    "reshard by size": {"max_bytes": 900},
    "reshard and compress": {"num_shards": 3, "compression": "gzip"},
    "shuffle": {"num_shards": 3, "seed": 1},
}


@pytest.mark.parametrize("case", WRITERS)
def test_shards(tmp_path: Path, paths: list[Path], case: str) -> None:
    job, options = case.partition(" ")[0], WRITERS[case]
    found = getattr(tio.cluster, job)(paths, tmp_path / "ray", on_error="skip", **options)
    wanted = getattr(tio.tools, job)(paths, tmp_path / "one", on_error="skip", **options)
    assert (found.counts, found.skipped) == (wanted.counts, wanted.skipped)
    assert found.skipped == 1
    assert contents(tmp_path, "ray") == contents(tmp_path, "one")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "images"])
def test_conversions(tmp_path: Path, kind: str) -> None:
    sources = KINDS[kind](tmp_path)
    found, wanted = (
        getattr(room, f"from_{kind}")(sources, tmp_path / name, num_shards=4, on_error="skip")
        for room, name in ((tio.cluster, "ray"), (tio.convert, "one"))
    )
    assert (found.counts, found.schema, found.skipped) == (
        wanted.counts, wanted.schema, wanted.skipped,
    )  # fmt: skip
    assert contents(tmp_path, "ray") == contents(tmp_path, "one")


def test_reports_schemas_and_indexes(tmp_path: Path, paths: list[Path]) -> None:
    reports = tio.cluster.verify(paths)
    assert list(map(shown, reports)) == [shown(verify_file(path)) for path in paths]
    tio.cluster.index(paths)
    for path in paths:
        index = tio.RecordIndex.load(path)
        assert index.offsets.tolist() == tio.RecordIndex.build(path).offsets.tolist()
    examples = write_tfrecord(tmp_path / "examples", map(every_kind.record, range(40)))
    found, wanted = tio.cluster.infer(examples), tio.Schema.infer(examples, None)
    assert (found, found.findings) == (wanted, wanted.findings)
