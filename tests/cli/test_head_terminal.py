"""The command ``torchrec-io head`` in a terminal."""

from __future__ import annotations

import fcntl
import io
import math
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from PIL import Image

from tests.cli.conftest import Run
from tests.support.messages import Example
from tests.support.tfrecord import write_tfrecord


def picture(width: int, height: int) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (width, height)).save(made, "PNG")
    return made.getvalue()


def in_terminal(directory: Path, *arguments: str, columns: int, lines: int) -> str:
    """Return what the command writes to a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    dropped = ("COLUMNS", "LINES", "TERM", "NO_COLOR")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    command = [sys.executable, "-m", "torchrec_io.cli", "head", *arguments]
    with subprocess.Popen(
        command, cwd=directory, stdout=theirs, stderr=theirs, stdin=theirs,
        env={**kept, "TERM": "xterm"},
    ) as process:  # fmt: skip
        os.close(theirs)
        written = b""
        # Linux reports the end of a terminal as an error.
        try:
            while chunk := os.read(ours, 1 << 16):
                written += chunk
        except OSError:
            pass
        assert process.wait() == 0, written
    os.close(ours)
    return written.decode()


def screen_lines(shown: str, columns: int) -> int:
    """Return the number of lines on the screen. Styles take no room, long lines take several."""
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in shown.splitlines()]
    return sum(max(1, math.ceil(len(line) / columns)) for line in plain)


def write_wide_records(path: Path) -> None:
    example = Example()
    for number in range(100):
        example.features.feature[f"c{number}"].int64_list.value.append(number)
    example.features.feature["image"].bytes_list.value.append(picture(300, 20))
    write_tfrecord(path, [example.SerializeToString()] * 5)


@pytest.mark.slow
def test_the_output_fits_the_terminal(tmp_path: Path, run: Run) -> None:
    write_wide_records(tmp_path / "x")
    shown = in_terminal(tmp_path, "x", columns=90, lines=30)
    # A line stays for the prompt.
    assert screen_lines(shown, 90) < 30
    long = tmp_path / ("x" * 200)
    long.symlink_to("x")
    assert screen_lines(in_terminal(tmp_path, long.name, columns=90, lines=30), 90) < 30
    assert "more rows: --all-features shows them" in shown
    assert "PNG 300x20" not in shown
    shown = in_terminal(tmp_path, "x", "--all-features", columns=90, lines=30)
    assert "c99" in shown
    assert "PNG 300x20" in shown
    assert "\x1b" not in run("head", "x").stdout
