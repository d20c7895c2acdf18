"""Ends of epochs: no thread, process, open file or shared memory remains."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

SECONDS = 60  # deadline for actions that take a few seconds
FEW = ["ends early", "whole"]
# Rounds that raise leave frames and their contents as garbage.
MOST = ["function raises", *FEW]
CALM = [*["ends early"] * 5, "is closed", "beside another", "loop raises", "whole"]
ALL = [*CALM, *MOST, "worker is killed"]


class Program:
    """A function of ``program.py`` in a separate session, with all its child processes."""

    def __init__(
        self, folder: Path, name: str, module: str = "tests.stopping.program", **options: Any
    ) -> None:
        code = f"from {module} import main; main()"
        # Prevent threads of OpenMP and OpenBLAS.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.folder = folder
        self._errors = (folder / "stderr").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, name, json.dumps({"folder": str(folder), **options})],
            cwd=ROOT,
            env=environment,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._pids = {self._process.pid}

    def close(self) -> None:
        """Kill the remaining processes."""
        for pid in self._alive():
            os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._errors.close()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def said(self) -> Any:
        """Return the next message of the program, or None at the end."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self._pids |= self._alive()
        return json.loads(line) if line else None

    def kill(self) -> None:
        """Kill the process, but not its children."""
        self._process.kill()

    def interrupt(self) -> None:
        """Send SIGINT to all processes of the session, like Ctrl-C."""
        os.killpg(self._process.pid, signal.SIGINT)

    def end(self) -> tuple[int, str]:
        """Wait for the end, check that nothing remains, and return exit code and stderr."""
        code = self._process.wait(SECONDS)
        deadline = time.monotonic() + SECONDS
        while self._alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert self._alive() == set()
        # PyTorch uses names "torch_PID_...", multiprocessing "pym-PID-...".
        names = [name.replace("-", "_").split("_") for name in os.listdir("/dev/shm")]
        assert [name for name in names if self._pids & {int(p) for p in name if p.isdigit()}] == []
        self._errors.seek(0)
        return code, self._errors.read()

    def log(self) -> list[str]:
        """Return the lines of the log so far."""
        return (self.folder / "log").read_text("ascii").split()

    def _alive(self) -> set[int]:
        """Return the running processes of the session."""
        found = set()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(state[3]) == self._process.pid and state[0] != "Z":
                found.add(int(pid))
        return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "combinations"),
    [
        (
            "fork",
            [
                *([0, False, threads, what] for threads in (1, 3) for what in (CALM, MOST)),
                *([2, kept, 1, MOST] for kept in (False, True)),
                *([2, kept, 3, CALM] for kept in (False, True)),
                [2, True, 3, ALL],
            ],
        ),
        ("forkserver", [[2, False, 3, MOST], [2, True, 1, FEW]]),
        ("spawn", [[2, True, 3, ALL], [1, False, 1, ["ends early"]]]),
    ],
    ids=["fork", "forkserver", "spawn"],
)
def test_repeated_iterations_leave_nothing(
    tmp_path: Path, method: str, combinations: list[list[Any]]
) -> None:
    """Combinations: number of workers, persistent_workers, number of threads, rounds."""
    with closing(Program(tmp_path, "rounds", method=method, combinations=combinations)) as program:
        said = program.said()
        code, errors = program.end()
        assert (said, code) == ("good", 0), errors


@pytest.mark.parametrize(
    ("method", "combination"),
    [
        pytest.param("fork", [0, False, 3], marks=pytest.mark.slow),
        ("fork", [2, True, 3]),
        pytest.param("spawn", [2, False, 1], marks=pytest.mark.slow),
    ],
)
def test_control_c_while_waiting_for_a_slow_function(
    tmp_path: Path, method: str, combination: list[Any]
) -> None:
    """Combination: number of workers, persistent_workers, number of threads."""
    options: dict[str, Any] = {"method": method, "combination": combination}
    with closing(Program(tmp_path, "interrupted", **options)) as program:
        assert program.said() == "ready"
        program.interrupt()
        code, errors = program.end()
        assert code == -signal.SIGINT
        assert errors.count("Traceback") == 1
        assert errors.rstrip().endswith("KeyboardInterrupt")
        # 40 batches are prefetched. Few of them start after the end: on a loaded machine it takes a
        # moment until the process notices its end.
        log = program.log()
        assert log[log.index("end") :].count("begun") < 15, log
