"""Kept inputs, and the table of runs."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import ROOT
from tests.fuzz import corpus, report


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


def test_the_table_of_results_names_all_targets_and_their_findings() -> None:
    table = (ROOT / "tests" / "fuzz" / "results.md").read_text("utf-8")
    assert report.HEADER in table
    rows = re.findall(r"^\| `(\w+)` \|.* (\d+) \|$", table, re.MULTILINE)
    assert [target for target, _ in rows] == corpus.native_targets() + corpus.python_targets()
    for target, findings in rows:
        assert int(findings) == len(corpus.findings_of(target)), target
