"""Virtual environments of the peers: ``python -m benchmarks.peers.venvs [peer...]``.

The environment ``common`` has PyTorch and the other packages that all peers need. Each peer's
environment extends it, so PyTorch is installed once; that of ``ray_data`` extends TensorFlow's.
Requirements list every needed package and are installed without their dependencies, because some
depend on another PyTorch or on TensorFlow.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from benchmarks.common import tensorflow_python
from benchmarks.workloads import ROOT

# Modules of this folder, in the order of the tables.
MODULES = (
    "ours",
    "tfdata",
    "tfrecord",
    "tfrecord_dataset",
    "rustfrecord",
    "dali",
    "arrayrecord_grain",
    "webdataset",
    "mosaicml",
)
_FOLDER = ROOT / "benchmarks" / "venvs"
_REQUIREMENTS = Path(__file__).parent / "requirements"
_COMMON = ("torch", "numpy", "protobuf", "pillow", "lazy-loader")


class SetupError(Exception):
    """An environment could not be made."""


def python_of(module: str) -> str:
    """Return the Python of a peer. Create its environment if it does not exist.

    Raises:
        SetupError: The environment cannot be created.
    """
    if module == "ours":
        return sys.executable
    if module == "tfdata":
        return tensorflow_python()
    if module == "ray_data":
        common = Path(tensorflow_python()).parents[1]
    else:
        common = _make("common", ["-c", str(ROOT / "constraints.txt"), *_COMMON], None)
    requirements = _REQUIREMENTS / f"{module}.txt"
    venv = _make(module, ["--no-deps", "-r", str(requirements)], common)
    return str(venv / "bin" / "python")


def _make(name: str, what: list[str], below: Path | None) -> Path:
    """Create an environment with packages that extends another one."""
    venv = _FOLDER / name
    ready = venv / ".ready"
    wanted = " ".join(what)
    if "-r" in what:
        wanted = Path(what[-1]).read_text("utf-8")
    if ready.exists() and ready.read_text("utf-8") == wanted:
        return venv
    print(f"creating {venv}", file=sys.stderr)
    shutil.rmtree(venv, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(venv)])
    if below is not None:
        (_packages_of(venv) / "below.pth").write_text(f"{_packages_of(below)}\n", "utf-8")
    _run([str(venv / "bin" / "pip"), "install", "-q", *what])
    ready.write_text(wanted, "utf-8")
    return venv


def _packages_of(venv: Path) -> Path:
    paths = {"base": str(venv), "platbase": str(venv)}
    return Path(sysconfig.get_path("purelib", "venv", vars=paths))


def _run(command: list[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise SetupError((lines or [f"{command[0]} exited with {done.returncode}"])[-1])


def main() -> None:
    """Create the named environments, or all. Print the errors of those that cannot be created."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peers", nargs="*", default=MODULES, help="default: all")
    for module in parser.parse_args().peers:
        try:
            print(f"{module}: {python_of(module)}", flush=True)
        except SetupError as error:
            print(f"{module}: {error}", flush=True)


if __name__ == "__main__":
    main()
