"""Verification in tasks gives the reports of one machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.cluster.local_ray import LocalRay
from tests.convert.reading import Heard
from tests.support.tfrecord import write_tfrecord
from torchrec_io._records.verify import VerifyReport, verify_file

RECORDS = [bytes([i]) * (i * 37 % 91) for i in range(200)]


def shown(report: VerifyReport) -> tuple[object, ...]:
    damage = [str(error) for error in report.damage]
    cells = report.damage_map.cells(100)
    return (report.path, report.file_bytes, report.records, report.damaged, damage,
            str(report.lost), report.lost_bytes, cells, report.ok)  # fmt: skip


@pytest.mark.usefixtures("local_ray")
@given(flips=st.lists(st.integers(0, 11_000), max_size=3))
def test_reports_are_those_of_one_machine(
    tmp_path_factory: pytest.TempPathFactory, flips: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("files")
    path = write_tfrecord(folder / "a", RECORDS)
    tio.RecordIndex.build(path).save()
    content = bytearray(path.read_bytes())
    for flip in flips:
        content[flip % len(content)] ^= 0x10
    path.write_bytes(content)
    other = write_tfrecord(folder / "b.gz", RECORDS[:9], "gzip")
    reports = tio.cluster.verify([path, other])
    assert [shown(report) for report in reports] == [
        shown(verify_file(each)) for each in (path, other)
    ]


def test_progress(tmp_path: Path, local_ray: LocalRay) -> None:
    paths = [write_tfrecord(tmp_path / str(i), RECORDS) for i in range(5)]
    heard = Heard()
    tio.cluster.verify(paths, watcher=heard)
    assert len(local_ray.sent) == 1  # small files are verified together
    assert heard.total == heard.size == sum(path.stat().st_size for path in paths)
    assert heard.records == 1000


@pytest.mark.usefixtures("local_ray")
def test_errors_of_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tio.cluster.verify(tmp_path / "none")
