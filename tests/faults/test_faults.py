"""Every writer, tool, conversion, index and reader under faults of the system at every call.

Whatever fails or is killed, the outputs are old or new, and whole; an error is raised; temporary
files are removed or named; and a reader gets right data or an error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.conftest import ROOT
from tests.faults.injection import build_shims
from tests.faults.programs import ALLOCATING, CACHES, CONVERSIONS, INDEXES, READERS, TOOLS, WRITERS


class Server:
    """A process with the shim, see ``server.py``."""

    def __init__(self, folder: Path) -> None:
        self._errors = (folder / "stderr").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.server", str(folder)],
            cwd=ROOT,
            env={**os.environ, "LD_PRELOAD": ":".join(map(str, build_shims(folder)))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def check(self, program: str, faults: list[str]) -> int:
        """Run a program under faults, and return the number of cases.

        Of the calls that may fail, each eighth one gets a fault, and all of them in ``make long``.
        """
        step = 1 if is_long() else 8
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(
            json.dumps({"program": program, "faults": faults, "step": step}),
            file=self._process.stdin,
        )
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._errors.seek(0)
            errors = self._errors.read().splitlines()
            pytest.fail("\n".join(errors))
        cases, wrong = json.loads(answer)
        assert not wrong, "\n".join([f"{len(wrong)} of {cases} cases", *wrong[:10]])
        return int(cases) * step

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("faults"))
    yield server
    server.close()


def is_long() -> bool:
    return hypothesis.settings().max_examples >= 1000  # make long


WRITING = ["KILL", "EIO"]
WRITING_LONG = ["ENOSPC", "BROKEN", "FULL", "LOST_ANSWER", "SHORT_WRITE", "EINTR"]
READING = ["EIO_READING", "SHORT_READ", "SHORT_READS", "EINTR"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*WRITERS, *TOOLS, *CONVERSIONS, *INDEXES])
def test_outputs_are_old_or_new(server: Server, name: str) -> None:
    assert server.check(name, WRITING + is_long() * WRITING_LONG) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("name", CACHES)
def test_faults_of_a_cache_are_no_errors(server: Server, name: str) -> None:
    faults = ["LOST_ANSWER", "SHORT_WRITES", *WRITING]
    more = ["ENOSPC", "FULL", "BROKEN", *READING]
    assert server.check(name, faults + is_long() * more) > 50


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_readers_get_right_data_or_an_error(server: Server, name: str) -> None:
    assert server.check(f"reading: {name}", READING) > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", ALLOCATING)
def test_memory_runs_out(server: Server, name: str) -> None:
    """Each allocation of the native core in turn: a MemoryError, or the right result.

    The same process then does its work again.
    """
    assert server.check(f"allocating: {name}", ["ALLOCATION"]) > 50


@pytest.mark.slow
def test_short_writes_and_lasting_faults(server: Server) -> None:
    faults = ["SHORT_WRITES", "SHORT_WRITE", "EINTR", "BROKEN", "FULL"]
    assert server.check("shards over old", faults) > 50


@pytest.mark.slow
@pytest.mark.parametrize("name", ["to_parquet", "shards", "to_files"])
def test_calls_that_fail_although_they_did_their_work(server: Server, name: str) -> None:
    """As over a network, where the answer of the server may be lost."""
    assert server.check(name, ["LOST_ANSWER", "EINTR"]) > 10
