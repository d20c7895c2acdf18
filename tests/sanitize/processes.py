"""Scenarios with several processes: workers, and interpreters that exit while threads load."""

from __future__ import annotations

import json
import subprocess
import sys

import torchrec_io as tio

from .files import COUNT, Files
from .scenarios import ids_of, open_small

EXIT_SECONDS = 600  # under a sanitizer, on a busy machine


def forked_workers(files: Files) -> None:
    """Iterate with forked workers while this process has threads that load."""
    in_background = iter(open_small(files, epochs=None))
    next(in_background)
    use_workers(files, "fork")
    next(in_background)


def spawned_workers(files: Files) -> None:
    """Iterate with spawned workers, to the end and halfway."""
    use_workers(files, "spawn")


def use_workers(files: Files, method: str) -> None:
    dataset = open_small(files, uneven="keep")
    loader = tio.make_loader(dataset, num_workers=2, multiprocessing_context=method)
    assert ids_of(loader) == list(range(COUNT))
    for number, _ in enumerate(loader):
        if number == 3:
            break
    assert ids_of(loader) == list(range(COUNT))


def exits(files: Files) -> None:
    """Exit interpreters in each way of :mod:`tests.stopping.leaving`, with daemons that load."""
    folder = files.folder / "exits"
    folder.mkdir(exist_ok=True)
    options = json.dumps({"folder": str(folder), "imports": [], "times": 1})
    code = "from tests.stopping.leaving import main; main()"
    command = [sys.executable, *python_flags(), "-c", code, options]
    run = subprocess.run(
        command, check=False, timeout=EXIT_SECONDS, stdout=subprocess.PIPE, text=True
    )
    assert (run.returncode, run.stdout) == (0, "")


def python_flags() -> list[str]:
    """Return the flags of this interpreter, which decide where the package is found."""
    return subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined,no-any-return]
