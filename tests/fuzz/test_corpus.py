"""Kept inputs, and the table of runs."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import ROOT
from tests.fuzz import corpus, report

LOG = """\
INFO: seed corpus: files: 52
#53\tINITED cov: 178 ft: 810 corp: 40/7Kb exec/s: 0 rss: 52Mb
#4096\tpulse  cov: 181 ft: 822 corp: 43/7Kb lim: 80 exec/s: 2048 rss: 60Mb
"""


def test_kept_inputs_are_small_and_belong_to_a_target() -> None:
    targets = corpus.native_targets() + corpus.python_targets()
    assert len(set(targets)) == len(targets), "two targets would share a folder"
    assert {path.name for path in corpus.CORPUS.iterdir()} <= set(targets)
    files = [path for path in corpus.CORPUS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1 << 20
    for target in targets:
        assert list(corpus.kept_inputs(target)), target


def test_unpacked_inputs_start_a_run(tmp_path: Path) -> None:
    corpus.unpack(tmp_path)
    for target in corpus.native_targets() + corpus.python_targets():
        inputs = {path.read_bytes() for path in (tmp_path / target).iterdir()}
        assert inputs >= set(corpus.kept_inputs(target))
    assert b'"\\"FixedLenFeature\\""\n' in (tmp_path / "schema_json.dict").read_bytes()
    assert not (tmp_path / "png.dict").exists()  # libFuzzer refuses a file without words


def test_runs_of_a_target_are_added_up(tmp_path: Path) -> None:
    (tmp_path / "index-100.log").write_text(LOG)
    (tmp_path / "index-200.log").write_text(LOG.replace("#4096", "#5000"))
    (tmp_path / "index_file-100.log").write_text(LOG.replace("cov: 181", "cov: 999"))
    assert report.read_logs(tmp_path, "index") == report.Runs(9096, 181, 43)
    assert report.read_logs(tmp_path, "png") == report.Runs(0, 0, 0)
    row = next(line for line in report.table(tmp_path).splitlines() if "`index`" in line)
    assert row.startswith("| `index` | Opens index files of any bytes")
    assert row.endswith("| 9,096 | 181 | 43 | 0 |")


def test_the_table_of_the_docs_names_all_targets_and_their_findings() -> None:
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    table = page.partition("<!-- fuzz table -->")[2].partition("<!-- end -->")[0]
    assert report.HEADER in table
    rows = re.findall(r"^\| `(\w+)` \|.* (\d+) \|$", table, re.MULTILINE)
    assert [target for target, _ in rows] == corpus.native_targets() + corpus.python_targets()
    for target, findings in rows:
        assert int(findings) == len(corpus.findings_of(target)), target
