"""Client of the processes that measure peers."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from benchmarks.common import child_environment
from benchmarks.peers.venvs import python_of
from benchmarks.workloads import ROOT


class PeerError(Exception):
    """A peer could not be started."""


class Server:
    """Process that measures the peers of one module.

    Attributes:
        peers: Names of the peers.
    """

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [python_of(module), "-m", "benchmarks.peers.serve", module],
            cwd=ROOT,
            env=child_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        answer = self._read()
        if answer is None:
            raise PeerError("its module cannot be imported")
        self.peers: list[str] = answer["peers"]

    def ask(self, peer: str, what: str, workload: str, workers: int, **more: Any) -> dict[str, Any]:
        """Send a request and return the answer."""
        request = {"peer": peer, "what": what, "workload": workload, "workers": workers, **more}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        if answer is None:
            raise PeerError("its process ended")
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _read(self) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer
