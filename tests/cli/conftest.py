"""Fixtures that run the command line: in this process, and in a process of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import torchrec_io as tio
from tests.support.tfrecord import write_tfrecord
from torchrec_io.cli.commands import app

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs ``torchrec-io`` with arguments in ``tmp_path``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        given = [str(argument) for argument in arguments]
        ended = CliRunner().invoke(app, given, prog_name="torchrec-io")
        if ended.exception is not None and not isinstance(ended.exception, SystemExit):
            raise ended.exception
        return subprocess.CompletedProcess(given, ended.exit_code, ended.stdout, ended.stderr)

    return call


@pytest.fixture
def inputs(tmp_path: Path) -> None:
    """Write two TFRecord files to ``in``, and a CSV file."""
    (tmp_path / "in").mkdir()
    for name in "ab":
        records = [tio.encode_example({"n": number}) for number in range(4)]
        write_tfrecord(tmp_path / "in" / f"{name}.tfrecord", records)
    (tmp_path / "x.csv").write_text("n\n1\n2\n")


@pytest.fixture
def run_process(tmp_path: Path) -> Run:
    """Return a function that does the same in a process of its own, which takes far longer."""

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "torchrec_io.cli", *map(str, arguments)]
        return subprocess.run(
            command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False
        )

    return call


def run_in_terminal(
    directory: Path, *arguments: str, columns: int, lines: int, **variables: str
) -> str:
    """Return what ``torchrec-io`` writes to a terminal of a size, with environment variables."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    dropped = ("COLUMNS", "LINES", "TERM", "NO_COLOR")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    command = [sys.executable, "-m", "torchrec_io.cli", *arguments]
    with subprocess.Popen(
        command, cwd=directory, stdout=theirs, stderr=theirs, stdin=theirs,
        env={**kept, "TERM": "xterm", **variables},
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
