"""Shell completion: the scripts of the shells, and answers to what they ask."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from torchrec_io.cli.commands import app

SHELLS = ("bash", "zsh", "fish")


def complete(shell: str, line: str) -> str:
    """Return the answer to what a shell asks when Tab is pressed at the end of a line."""
    environment = {
        "_TORCHREC_IO_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    answer = CliRunner().invoke(app, env=environment, prog_name="torchrec-io")
    assert answer.exit_code == 0, answer.output
    return answer.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_options_and_values(shell: str) -> None:
    assert "verify" in complete(shell, "torchrec-io ver")
    assert "merge" not in complete(shell, "torchrec-io ver")
    assert "--compression" in complete(shell, "torchrec-io merge --comp")
    answer = complete(shell, "torchrec-io convert --to ")
    assert all(name in answer for name in ("tfrecord", "parquet", "webdataset", "files"))
    answer = complete(shell, "torchrec-io convert --to p")
    assert "parquet" in answer
    assert "webdataset" not in answer
    assert "skip" in complete(shell, "torchrec-io merge --on-error s")


def script_of(shell: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shellingham.detect_shell", lambda: (shell, f"/bin/{shell}"))
        shown = CliRunner().invoke(app, ["--show-completion"], prog_name="torchrec-io")
    assert shown.exit_code == 0, shown.output
    return shown.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash(tmp_path: Path) -> None:
    """Bash itself: the script is loaded, and its function called as for Tab."""
    script = script_of("bash")
    program = tmp_path / "torchrec-io"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -m torchrec_io.cli\n")
    program.chmod(0o755)
    name = script.split("()")[0].strip()
    commands = (
        f"{script}\nPATH={tmp_path}:$PATH\nCOMP_WORDS=(torchrec-io convert --to we)\nCOMP_CWORD=3\n"
        f"{name} torchrec-io\necho ${{COMPREPLY[@]}}\n"
    )
    ended = subprocess.run(
        ["/usr/bin/env", "bash", "-c", commands], capture_output=True, text=True, check=True
    )
    assert (ended.stdout, ended.stderr) == ("webdataset\n", "")
