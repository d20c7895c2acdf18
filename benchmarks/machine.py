"""Description of the machine and the library versions."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from benchmarks.common import child_environment, tensorflow_python


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _tensorflow() -> str:
    command = "from importlib.metadata import version; print(version('tensorflow_cpu'))"
    found = subprocess.run(
        [tensorflow_python(), "-c", command],
        env=child_environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    return found.stdout.strip()


def main() -> None:
    """Print one line."""
    print(
        f"{os.cpu_count()} cores ({_processor()}), Python {platform.python_version()}, "
        f"torch {version('torch')}, TensorFlow {_tensorflow()}"
    )


if __name__ == "__main__":
    main()
