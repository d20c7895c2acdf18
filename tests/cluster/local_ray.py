"""A stand-in for Ray that runs tasks in this process, when their results are requested.

As on a cluster, tasks have another working directory than the process that starts them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from ray import cloudpickle


class LocalRay:
    """The functions of Ray that tasks need.

    Attributes:
        sent: Size of the arguments of each task that was run.
        cancelled: Number of tasks that were cancelled.
        is_started: Whether the process is connected to a cluster.
        runs: Number of times that each task is run, as if all but the last process were lost.
    """

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.cancelled = 0
        self.is_started = False
        self.runs = 1
        self.exceptions = SimpleNamespace(RayTaskError=_TaskError)

    def is_initialized(self) -> bool:
        return self.is_started

    def init(self, *_: Any, **__: Any) -> None:
        self.is_started = True

    def remote(self, **_: Any) -> Callable[[Any], Any]:
        return lambda function: SimpleNamespace(remote=lambda *args: _Task(function, args))

    def get(self, task: Any) -> Any:
        pickled = cloudpickle.dumps((task.function, task.args))  # type: ignore[no-untyped-call]
        self.sent.append(len(pickled))
        with tempfile.TemporaryDirectory() as folder, _working_in(folder):
            for _ in range(self.runs):
                function, args = cloudpickle.loads(pickled)
                try:
                    result = function(*args)
                except Exception as error:
                    raise _TaskError(error) from error
        return result

    def cancel(self, task: Any) -> None:
        del task
        self.cancelled += 1


@contextmanager
def _working_in(folder: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


class _TaskError(Exception):
    def __init__(self, cause: Exception) -> None:
        super().__init__("a task failed")
        self.cause = cause


class _Task:
    def __init__(self, function: Any, args: Any) -> None:
        self.function = function
        self.args = args


@pytest.fixture
def local_ray(monkeypatch: pytest.MonkeyPatch) -> LocalRay:
    """Run tasks in this process."""
    stand_in = LocalRay()
    monkeypatch.setattr("torchrec_io.cluster.tasks.import_ray", lambda: stand_in)
    return stand_in
