"""The command ``torchrec-io report``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.examples import example_of
from tests.support.tfrecord import write_tfrecord


@pytest.fixture(autouse=True)
def _input(run: Run) -> None:
    del run  # its working directory
    for number in range(3):
        records = [example_of(x=[i], color=[number]) for i in range(100)]
        write_tfrecord(f"data-{number:05}-of-00003.tfrecord", records)


def test_a_page_and_a_summary(run: Run) -> None:
    result = run("report", ".", "-o", "report.html")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(
        "300 records in 3 files, all inspected, 2 features; written to report.html in "
    )
    page = Path("report.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "Order of the records" not in page


def test_options(run: Run) -> None:
    result = run(
        "report", "data-*", "-o", "out.html", "--label", "color", "--duplicates", "-j", "2"
    )
    assert result.returncode == 0, result.stderr
    page = Path("out.html").read_text("utf-8")
    assert "different files have different labels" in page
    assert "300 of 300 records are different" in page
    result = run("report", "data-*", "-o", "few.html", "--max-records", "50")
    assert "50 inspected" in result.stdout
    assert "50 of 300 records" in Path("few.html").read_text("utf-8")
    result = run("report", "data-*", "-o", "all.html", "--max-records", "50", "--all")
    assert "all inspected" in result.stdout


def test_data_is_not_replaced_by_a_page(run: Run) -> None:
    before = Path("data-00000-of-00003.tfrecord").read_bytes()
    result = run("report", ".", "-o", "data-00000-of-00003.tfrecord", "--force")
    assert result.returncode == 2
    assert "would overwrite the input" in result.stderr
    assert Path("data-00000-of-00003.tfrecord").read_bytes() == before


def test_sets_are_shown_by_themselves(run: Run) -> None:
    for number in range(2):
        write_tfrecord(f"val-{number:05}-of-00002.tfrecord", [example_of(x=[7])] * 20)
    result = run("report", ".", "-o", "report.html")
    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert first.startswith("data: 300 records in 3 files, all inspected, 2 features; written to ")
    assert second.startswith("val: 40 records in 2 files, all inspected, 1 feature; written to ")
    report = json.loads(run("report", ".", "--json", "-o", "both.html").stdout)
    assert (report["records"], report["other_sets"][0]["records"]) == (300, 40)
    assert Path("both.html").exists()
    assert json.loads(run("report", "data-*", "val-*", "--json").stdout)["records"] == 300
    before = Path("val-00001-of-00002.tfrecord").read_bytes()
    result = run("report", ".", "-o", "val-00001-of-00002.tfrecord", "--force")
    assert "would overwrite the input" in result.stderr
    assert Path("val-00001-of-00002.tfrecord").read_bytes() == before


@pytest.mark.parametrize("command", ["head", "verify", "merge -o out"])
def test_other_commands_refuse_several_sets(run: Run, command: str) -> None:
    write_tfrecord("val-00000-of-00001.tfrecord", [example_of(x=[7])])
    name, *options = command.split()
    result = run(name, ".", *options)
    assert result.returncode == 2
    assert (
        "error: the directory '.' has 2 sets of files: './data-*-of-00003.tfrecord', "
        "'./val-00000-of-00001.tfrecord'; choose one of these patterns, or pass './*' to read all"
    ) in result.stderr
    assert not Path("out").exists()


def test_damage_is_in_the_summary(run: Run) -> None:
    path = Path("data-00001-of-00003.tfrecord")
    path.write_bytes(path.read_bytes()[:-3])
    result = run("report", ".", "-o", "report.html")
    assert result.returncode == 0
    assert "1 damaged file; written to" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((".",), "--output FILE is missing"),
        ((".", "-o", "x.html", "--label", "z"), "label must be the name of a feature"),
    ],
)
def test_wrong_arguments(run: Run, arguments: tuple[str, ...], message: str) -> None:
    result = run("report", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert not Path("x.html").exists()
