"""Start and end of the command line."""

from __future__ import annotations

import gzip
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.datasets import record
from tests.support.tfrecord import frame, write_tfrecord


@pytest.mark.slow
def test_never_imports_torch(tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "x", [record(1)])
    for command in ("index", "head", "schema", "verify", "report"):
        options = ["--json"] if command == "report" else []
        script = (
            "import sys\n"
            "from torchrec_io.cli import main\n"
            f"sys.argv = ['torchrec-io', {command!r}, {str(tmp_path / 'x')!r}, *{options!r}]\n"
            "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
            "assert 'torch' not in sys.modules\n"
        )
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_version_and_help(run: Run, run_process: Run) -> None:
    assert run_process("--version").stdout == f"torchrec-io {version('torchrec-io')}\n"
    shown = run("--help").stdout
    assert all(command in shown for command in ("index", "head", "schema", "verify"))
    assert run("index", "--help").returncode == 0
    assert run().returncode == 2


@pytest.mark.parametrize("missing", ["rich", "typer"])
def test_says_what_to_install_without_the_extra(missing: str) -> None:
    script = f"import sys; sys.modules[{missing!r}] = None; import torchrec_io.cli as c; c.main()"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        f'torchrec-io needs the package {missing}: pip install "torchrec-io[cli]"\n'
    )


INTERRUPTED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
left = int(sys.argv.pop())
seen = 0
def count(event, arguments):
    global seen
    if event == "import" and (seen or arguments[0] == "torchrec_io.cli.commands"):
        seen += 1
        if seen == left:
            os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(count)
from torchrec_io.cli import main
try:
    main()
finally:
    print("imports:", seen)
"""


def interrupted_at(number: int) -> subprocess.CompletedProcess[str]:
    """Run the command line and send it SIGINT at an import; at none if the number is 0."""
    command = [sys.executable, "-c", INTERRUPTED, "--version", str(number)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.slow
def test_ctrl_c_while_the_command_line_starts() -> None:
    whole = interrupted_at(0)
    imports = int(whole.stdout.split()[-1])
    assert imports > 100  # nearly all imports come after the handler is set
    for number in [*range(1, imports, imports // 7), imports]:
        ended = interrupted_at(number)
        assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n"), number


def test_ignored_ctrl_c_stays_ignored() -> None:
    script = INTERRUPTED.replace("default_int_handler", "SIG_IGN")
    command = [sys.executable, "-c", script, "--version", "20"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("torchrec-io ")


def test_ctrl_c_stops_threads_within_files(tmp_path: Path) -> None:
    # The files are gigabytes when decompressed. Reading them takes far longer than the timeout.
    member = gzip.compress(frame(b"") * (1 << 20))
    (tmp_path / "x").write_bytes(member * 1000)
    script = (
        "import os, signal, sys\n"
        "import torchrec_io.cli.progress as progress\n"
        "add = progress.Meter.advanced\n"
        "def interrupt(*arguments):\n"
        "    progress.Meter.advanced = add\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "progress.Meter.advanced = interrupt\n"
        "sys.argv = ['torchrec-io', 'verify', 'x']\n"
        "from torchrec_io.cli import main\n"
        "main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        check=False, capture_output=True, text=True, cwd=tmp_path, timeout=15,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "interrupted\n")


def test_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "x", [b"some text"] * 5000)
    command = [sys.executable, "-m", "torchrec_io.cli", "head", "-n", "5000", "x"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
