"""Killed workers and parents: errors are prompt, and no resources remain."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.stopping.test_processes import Program

MODULE = "tests.stopping.killing"

# Number of workers, persistent_workers, and moment of the kill.
LIVES: dict[str, list[list[Any]]] = {
    "fork": [
        [1, False, "at any time"],
        [2, True, "slot is taken"],
        [2, False, "message is made"],
        [1, True, "before a batch is taken over"],
    ],
    "spawn": [
        [1, True, "message is made"],
        [2, False, "at any time"],
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("method", LIVES)
def test_killed_worker_is_an_error_and_leaves_nothing(tmp_path: Path, method: str) -> None:
    with closing(
        Program(tmp_path, "killed", MODULE, method=method, lives=LIVES[method])
    ) as program:
        said = program.said()
        code, errors = program.end()
        assert (said, code) == ("good", 0), errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "held"),
    [("fork", 0), ("spawn", 3), ("fork", 50)],
    ids=["while it reads", "while it waits", "while it holds all slots"],
)
def test_workers_of_a_killed_parent_end(tmp_path: Path, method: str, held: int) -> None:
    """Workers notice the end of their parent within a few seconds."""
    with closing(Program(tmp_path, "orphaned", MODULE, method=method, held=held)) as program:
        assert program.said() == "ready"
        program.kill()
        code, _ = program.end()
        assert code == -signal.SIGKILL
