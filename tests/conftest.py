"""Fixtures for all tests: separate cache directories, real files, and TensorFlow's results."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import itertools
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import hypothesis
import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
WILD = ROOT.parent / "shared" / "data" / "wild"

# The same examples in every run, so that failures are reproducible.
_SHARED: dict[str, Any] = {
    "derandomize": True,
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [hypothesis.HealthCheck.function_scoped_fixture],
}
hypothesis.settings.register_profile("quick", max_examples=30, **_SHARED)
hypothesis.settings.register_profile("long", max_examples=1000, **_SHARED)
hypothesis.settings.load_profile("quick")

# After this time a slow test has failed. That of other tests is in pyproject.toml.
_SLOW_SECONDS = 600


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks of this suite."""
    config.addinivalue_line("markers", "gpu: needs a CUDA device; skipped without one")
    config.addinivalue_line("markers", "slow: takes over 4 seconds on 2 cores; see make slow")
    config.addinivalue_line("markers", "long: takes over 30 seconds on 2 cores; see make long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give slow tests more time than others, unless the command line or the test says how much."""
    for item in items if config.getoption("timeout") is None else ():
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_SLOW_SECONDS))


def pytest_collection_finish() -> None:
    """Exclude the objects of all modules and tests from garbage collection.

    There are millions of them. A full collection, which many tests ask for, would take a second.
    """
    gc.collect()
    gc.freeze()


def _build() -> None:
    """Rebuild changed native code before a test process loads it."""
    spec = importlib.util.find_spec("torchrec_io._core")
    assert spec is not None
    rebuild = getattr(spec.loader, "rebuild", None)  # an installed wheel has no such method
    if rebuild is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        rebuild()


_build()

# A shell that starts the tests in the background may make them and their children ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# torch.distributed looks up names of this machine many times, which takes 10 seconds each time on a
# network without an answer. Nothing that tests need has such a name.
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:1")

# Tests end processes and not machines, so they do not wait for the disk.
os.fsync = lambda fd: None  # noqa: ARG005

# Otherwise each worker of a fork server imports torch, which takes longer than most tests.
multiprocessing.set_forkserver_preload(
    ["torch.utils.data", "torchrec_io._datasets.tfrecord", "hypothesis", "pytest"]
)


def skip_or_fail(reason: str) -> NoReturn:
    """Skip a test that lacks a tool. In CI, where all tools must be installed, fail instead."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return names of new folders. ``mktemp`` would list those of all earlier tests each time."""
    root = tmp_path_factory.mktemp("caches")
    return (root / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _own_world(_caches: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test its own index cache, and remove variables of distributed launchers.

    Spawned child processes inherit this environment.
    """
    cache = next(_caches)
    cache.mkdir()
    monkeypatch.setenv("TORCHREC_IO_CACHE", str(cache))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


# ---- real files ----


@dataclass(frozen=True)
class Wild:
    """Real files from public repositories.

    Attributes:
        path: Directory of the files.
        manifest: Known facts about the files, described in the README of the directory.
    """

    path: Path
    manifest: dict[str, Any]


@pytest.fixture(scope="session")
def wild() -> Wild:
    """Return the directory of real files, and its manifest."""
    manifest = WILD / "MANIFEST.json"
    if not manifest.is_file():
        skip_or_fail("the directory ../shared/data/wild does not exist")
    return Wild(WILD, json.loads(manifest.read_text("utf-8")))


# ---- TensorFlow ----


class TfOracle:
    """TensorFlow in a separate process that answers requests, see ``interop/tf_oracle.py``."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [self._python, str(TESTS / "interop" / "tf_oracle.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Return TensorFlow's answer.

        Raises:
            RuntimeError: TensorFlow crashed, which some inputs cause. The next request starts it
                again.
        """
        answer: dict[str, Any] = self._ask(request)
        return answer

    def ask_all(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return TensorFlow's answers to many requests, sent at once.

        Raises:
            RuntimeError: TensorFlow crashed. The message contains the request.
        """
        try:
            answers: list[dict[str, Any]] = self._ask(requests)
        except RuntimeError:
            return [self.ask(**request) for request in requests]
        return answers

    def _ask(self, line: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(line), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            self.close()
            code = self._process.returncode
            self._start()
            raise RuntimeError(f"TensorFlow died with {code} on {json.dumps(line)}")
        return json.loads(answer)

    def parse_example(self, examples: list[bytes], spec: dict[str, Any]) -> dict[str, Any]:
        """Return the result of ``tf.io.parse_example`` in the form of ``interop/tf_json.py``."""
        return self.ask(op="parse_example", examples=[e.hex() for e in examples], spec=spec)

    def close(self) -> None:
        """Kill the process, because TensorFlow sometimes hangs at exit."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


@pytest.fixture(scope="session")
def tf_python() -> str:
    """Return a Python with TensorFlow: ``$TORCHREC_IO_TF_PYTHON``, or that of ``.venv-tf``."""
    named = os.environ.get("TORCHREC_IO_TF_PYTHON")
    python = named or str(ROOT / ".venv-tf" / "bin" / "python")
    if shutil.which(python) is None:
        skip_or_fail(
            f"{python!r} is not a Python with TensorFlow; set TORCHREC_IO_TF_PYTHON to one"
        )
    return python


@pytest.fixture(scope="session")
def tf_oracle(tf_python: str) -> Iterator[TfOracle]:
    """Start TensorFlow in a process for the whole session."""
    oracle = TfOracle(tf_python)
    yield oracle
    oracle.close()
