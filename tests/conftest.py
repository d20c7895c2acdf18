"""What all tests share: a cache directory of their own, real files, and TensorFlow's answers."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import hypothesis
import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
WILD = ROOT.parent / "shared" / "data" / "wild"

# The same examples in every run: a failure is one that anybody can repeat.
_SHARED: dict[str, Any] = {
    "derandomize": True,
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [hypothesis.HealthCheck.function_scoped_fixture],
}
hypothesis.settings.register_profile("quick", max_examples=30, **_SHARED)
hypothesis.settings.register_profile("ci", max_examples=100, **_SHARED)
hypothesis.settings.register_profile("long", max_examples=1000, **_SHARED)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") == "true" else "quick")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marks of this suite."""
    config.addinivalue_line("markers", "gpu: needs a CUDA device; skipped where there is none")
    config.addinivalue_line("markers", "slow: takes over 10 seconds on 2 cores; see make slow")


def _build() -> None:
    """Builds what was changed of the native code, before any process of the tests loads it."""
    spec = importlib.util.find_spec("torchrec_io._core")
    assert spec is not None
    rebuild = getattr(spec.loader, "rebuild", None)  # of an installed wheel there is none
    if rebuild is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        rebuild()


_build()

# Who starts the tests in the background may have had them ignore Ctrl-C, and all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Each worker of a fork server would import torch for itself, which takes longer than most tests.
multiprocessing.set_forkserver_preload(["torch.utils.data", "torchrec_io.datasets.tfrecord"])


def skip_or_fail(reason: str) -> NoReturn:
    """Skips where somebody lacks a tool; fails in CI, where all of them have to be there."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def _own_world(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps indexes out of the user's cache, and a launcher's environment out of the tests.

    Child processes that are spawned inherit it.
    """
    monkeypatch.setenv("TORCHREC_IO_CACHE", str(tmp_path_factory.mktemp("cache")))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


# ---- real files ----


@dataclass(frozen=True)
class Wild:
    """Real files from public repositories.

    Attributes:
        path: The directory.
        manifest: What is known of them; see the README beside it.
    """

    path: Path
    manifest: dict[str, Any]


@pytest.fixture(scope="session")
def wild() -> Wild:
    """The directory of real files, and its manifest."""
    manifest = WILD / "MANIFEST.json"
    if not manifest.is_file():
        skip_or_fail("there is no ../shared/data/wild beside the repository")
    return Wild(WILD, json.loads(manifest.read_text("utf-8")))


# ---- TensorFlow ----


class TfOracle:
    """TensorFlow in a process of its own, which answers questions; see ``interop/tf_oracle.py``."""

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
        """TensorFlow's answer.

        Raises:
            RuntimeError: TensorFlow has died of it, as it does of some inputs; the next request
                starts it again.
        """
        answer: dict[str, Any] = self._ask(request)
        return answer

    def ask_all(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """TensorFlow's answers to many requests, with one trip for all.

        Raises:
            RuntimeError: TensorFlow has died of one of them; says which.
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
            raise RuntimeError(f"TensorFlow died with {code} of {json.dumps(line)}")
        return json.loads(answer)

    def parse_example(self, examples: list[bytes], spec: dict[str, Any]) -> dict[str, Any]:
        """What ``tf.io.parse_example`` gives; see ``interop/tf_json.py`` for the forms."""
        return self.ask(op="parse_example", examples=[e.hex() for e in examples], spec=spec)

    def close(self) -> None:
        """Ends the process; by force, for TensorFlow now and then hangs at its exit."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


@pytest.fixture(scope="session")
def tf_python() -> str:
    """A Python with TensorFlow: what ``TORCHREC_IO_TF_PYTHON`` names, else ``.venv-tf``'s."""
    named = os.environ.get("TORCHREC_IO_TF_PYTHON")
    python = named or str(ROOT / ".venv-tf" / "bin" / "python")
    if shutil.which(python) is None:
        skip_or_fail(
            f"there is no Python with TensorFlow at {python!r}; "
            "TORCHREC_IO_TF_PYTHON can name another"
        )
    return python


@pytest.fixture(scope="session")
def tf_oracle(tf_python: str) -> Iterator[TfOracle]:
    """TensorFlow, in a process that serves the whole session."""
    oracle = TfOracle(tf_python)
    yield oracle
    oracle.close()
