"""A stand-in for Ray that runs tasks in this process, one after another, in any order."""

from __future__ import annotations

from collections.abc import Callable
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
    """

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.cancelled = 0
        self.is_started = False
        self.exceptions = SimpleNamespace(RayTaskError=_TaskError)

    def is_initialized(self) -> bool:
        return self.is_started

    def init(self) -> None:
        self.is_started = True

    def remote(self, **_: Any) -> Callable[[Any], Any]:
        return lambda function: SimpleNamespace(remote=lambda *args: _Task(function, args))

    def wait(self, references: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        return references[-num_returns:], references[:-num_returns]  # the last one is done first

    def get(self, task: Any) -> Any:
        pickled = cloudpickle.dumps((task.function, task.args))  # type: ignore[no-untyped-call]
        self.sent.append(len(pickled))
        function, args = cloudpickle.loads(pickled)
        try:
            return function(*args)
        except Exception as error:
            raise _TaskError(error) from error

    def cancel(self, task: Any) -> None:
        del task
        self.cancelled += 1

    def cluster_resources(self) -> dict[str, float]:
        assert self.is_started
        return {"CPU": 2.0}


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
