"""Server that measures the peers of one module, in the peer's environment.

The module is imported once. Each measurement runs in its own process, forked from this one before
the library has done anything. Requests and answers are lines of JSON. An answer has the key
"skipped" if the peer does not support the case, and "error" if it failed.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import epoch
from benchmarks.peers.base import Peer
from benchmarks.workloads import WORKLOADS

_LIMIT_S = 1200  # time limit of a measurement


def _answer(peer: Peer, request: dict[str, Any]) -> dict[str, Any]:
    workload, workers = WORKLOADS[request["workload"]], request["workers"]
    if why := peer.supports(workload, workers):
        return {"skipped": why}
    if request["what"] == "check":
        peer.prepare(workload)
        return epoch.check(peer, workload, workers, request["pictures"])
    return epoch.measure(peer, workload, workers, request["seconds"])


def _in_fork(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run a function in a forked process group, end the group, and return the result or error."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.setpgid(0, 0)
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  # a peer may raise anything
            traceback.print_exc()
            result = {"error": " ".join(f"{type(error).__name__}: {error}".split())[:200]}
        os.write(write, json.dumps(result).encode() + b"\n")
        os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as answers:
        line = answers.readline() if select.select([read], [], [], _LIMIT_S)[0] else ""
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return json.loads(line) if line else {"error": f"no result within {_LIMIT_S} s, or a crash"}


def main() -> None:
    """Serve until the input ends."""
    # Output of libraries must not mix with the answers.
    with open(os.dup(1), "w", encoding="utf-8", buffering=1) as answers:
        os.dup2(2, 1)
        module = importlib.import_module(f"benchmarks.peers.{sys.argv[1]}")
        peers: dict[str, Peer] = {peer.name: peer for peer in module.PEERS}
        # A collection of the imported objects would fall into the measurement of any fork.
        gc.collect()
        gc.freeze()
        print(json.dumps({"peers": list(peers)}), file=answers)
        for line in sys.stdin:
            request = json.loads(line)
            result = _in_fork(partial(_answer, peers[request["peer"]], request))
            print(json.dumps(result), file=answers)


if __name__ == "__main__":
    main()
