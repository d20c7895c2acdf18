"""The command line in a terminal."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run, run_in_terminal
from tests.support.images import encoded, noise
from tests.support.messages import Example
from tests.support.tfrecord import write_tfrecord

LONG = f"steps/{'observation/' * 12}image"


def screen_lines(shown: str, columns: int) -> int:
    """Return the number of lines on the screen. Styles take no room, long lines take several."""
    return sum(max(1, math.ceil(len(line) / columns)) for line in plain(shown).splitlines())


def plain(shown: str) -> str:
    """Return text without styles, moves of the cursor, and progress."""
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown)


def write_wide_records(path: Path) -> None:
    example = Example()
    for number in range(100):
        example.features.feature[f"c{number}"].int64_list.value.append(number)
    example.features.feature["image"].bytes_list.value.append(encoded(noise(20, 300)))
    write_tfrecord(path, [example.SerializeToString()] * 5)


@pytest.mark.slow
def test_the_output_fits_the_terminal(tmp_path: Path, run: Run) -> None:
    write_wide_records(tmp_path / "x")
    shown = run_in_terminal(tmp_path, "head", "x", columns=90, lines=30)
    # A line stays for the prompt.
    assert screen_lines(shown, 90) < 30
    long = tmp_path / ("x" * 200)
    long.symlink_to("x")
    assert screen_lines(run_in_terminal(tmp_path, "head", long.name, columns=90, lines=30), 90) < 30
    assert "more rows: --all-features shows them" in shown
    assert "PNG 300x20" not in shown
    shown = run_in_terminal(tmp_path, "head", "x", "--all-features", columns=90, lines=30)
    assert "c99" in shown
    assert "PNG 300x20" in shown
    assert "\x1b" not in run("head", "x").stdout


@pytest.mark.parametrize("command", ["head", "schema"])
def test_long_names_take_several_lines_in_a_terminal(
    tmp_path: Path, run: Run, command: str
) -> None:
    example = Example()
    example.features.feature[LONG].int64_list.value.extend(range(5))
    write_tfrecord(tmp_path / "x", [example.SerializeToString()])
    shown = run_in_terminal(tmp_path, command, "x", columns=80, lines=30, NO_COLOR="1")
    assert not re.search(r"\x1b\[[\d;]*[34]\d", shown)  # bold is no color
    table = plain(shown.partition("import torchrec_io")[0]).splitlines()  # before schema's code
    assert max(map(len, table)) <= 80
    start = next(at for at, line in enumerate(table) if line.lstrip().startswith("steps/"))
    assert LONG in "".join(line.split()[0] for line in table[start:] if line.strip())
    piped = run(command, "x")
    assert re.search(rf"^ ?{LONG}  +int64", piped.stdout + piped.stderr, re.MULTILINE)
    assert "\x1b" not in piped.stdout + piped.stderr
