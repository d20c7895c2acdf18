"""Run cells in this process and the others that torchrun started, each in a process of its own.

    torchrun --nproc-per-node=N -m tests.trainers.run_cells FOLDER

FOLDER has ``jobs.json`` and the data: each job is a cell, and arguments for ``run_resumably`` of
its loop. What came of job ``j`` on rank ``r`` is written to ``FOLDER/j-r.json``. The libraries are
imported once: each job is a fork of this process.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

LOOPS = {
    "ddp": "tests.trainers.loops.ddp",
    "fsdp2": "tests.trainers.loops.fsdp2",
    "accelerate": "tests.trainers.loops.hf_accelerate",
    "transformers": "tests.trainers.loops.hf_trainer",
    "lightning": "tests.trainers.loops.lightning",
}
_MOST_SECONDS = 90  # for a cell
_GRACE_SECONDS = 4  # for a rank after another one has failed


def main(folder: Path) -> None:
    """Run the cells of a folder."""
    from tests.trainers.cells import Cell  # noqa: PLC0415  # spawned workers need none of these

    jobs = json.loads((folder / "jobs.json").read_text("utf-8"))
    cells = [Cell(**job.pop("cell")) for job in jobs]
    for trainer in {cell.trainer for cell in cells}:
        importlib.import_module(LOOPS[trainer])
    for number, (cell, job) in enumerate(zip(cells, jobs, strict=True)):
        pid = os.fork()
        if pid == 0:
            os.setsid()  # so that the workers can be stopped with it
            # Each cell has its own process group. In torchrun's store it would find the last one.
            os.environ["MASTER_PORT"] = _common_port(folder / f"{number}.port")
            os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "False"
            _run_cell(cell, job, number, folder)
        _wait(pid, number, folder)


def _common_port(path: Path) -> str:
    """Return a free port, the same on each rank."""
    if os.environ["RANK"] == "0":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            path.with_suffix(".part").write_text(str(free.getsockname()[1]), "utf-8")
        path.with_suffix(".part").replace(path)
    while not path.exists():
        time.sleep(0.01)
    return path.read_text("utf-8")


def _path(folder: Path, number: int, rank: int) -> Path:
    return folder / f"{number}-{rank}.json"


def _write(result: dict[str, Any], number: int, folder: Path) -> None:
    path = _path(folder, number, int(os.environ["RANK"]))
    path.with_suffix(".part").write_text(json.dumps(result), "utf-8")
    path.with_suffix(".part").replace(path)


def _run_cell(cell: Any, job: dict[str, Any], number: int, folder: Path) -> None:
    """Run a cell in this forked process, write what came, and exit."""
    import torch  # noqa: PLC0415

    from tests.trainers.data import Numbers  # noqa: PLC0415

    torch.set_num_threads(1)
    torch.manual_seed(number)
    numbers, error, place = Numbers(), None, ""
    start = time.monotonic()
    try:
        paths = sorted(str(path) for path in folder.glob("*.tfrecord"))
        loop = importlib.import_module(LOOPS[cell.trainer])
        run = loop.run_resumably if job else loop.run
        run(cell, paths, numbers, **job)
    except BaseException as caught:  # noqa: BLE001  # it is the result
        error = f"{type(caught).__name__}: {caught}"
        place = "".join(traceback.format_exception(caught))
    seconds = time.monotonic() - start
    result = {"epochs": numbers.epochs, "error": error, "place": place}
    _write({**result, "seconds": seconds}, number, folder)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _wait(pid: int, number: int, folder: Path) -> None:
    """Wait for a cell. Stop it if it takes too long, or waits for a rank that has failed."""
    start = time.monotonic()
    others = [_path(folder, number, rank) for rank in range(int(os.environ["WORLD_SIZE"]))]
    failed_at = None
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        now = time.monotonic()
        if failed_at is None and any(map(_has_failed, others)):
            failed_at = now
        if now - start > _MOST_SECONDS or (failed_at and now - failed_at > _GRACE_SECONDS):
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            if not others[int(os.environ["RANK"])].exists():
                _write({"stopped": True}, number, folder)
            return
        time.sleep(0.02)


def _has_failed(path: Path) -> bool:
    if not path.exists():
        return False
    result = json.loads(path.read_text("utf-8"))
    return bool(result.get("error") or result.get("stopped"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
