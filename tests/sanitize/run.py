"""Build the package with a sanitizer, and run each scenario with it: ``make sanitize``.

    python -m tests.sanitize.run BUILD_FOLDER --seconds 20 [--jobs 2] [--sanitizers thread address]

Only the native core is instrumented. Python, torch and NumPy are not, so the runtime of the
sanitizer is preloaded. Each scenario runs in a process of its own.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .__main__ import SCENARIOS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

# The sanitizers' exit code. Codes 1 and 2 are those of Python.
REPORTED = 86
OPTIONS = {
    # Forked workers are threads of a copy of this process: TSan does not support them by default.
    "thread": {
        "TSAN_OPTIONS": f"exitcode={REPORTED}:die_after_fork=0:second_deadlock_stack=1:"
        f"suppressions={HERE / 'thread.supp'}"
    },
    # Python and torch keep memory until the process ends, which LeakSanitizer reports. Tests of
    # leaks measure the memory of the process instead.
    "address": {
        "ASAN_OPTIONS": f"exitcode={REPORTED}:detect_leaks=0:strict_string_checks=1:"
        "detect_stack_use_after_return=1",
        "UBSAN_OPTIONS": f"exitcode={REPORTED}:print_stacktrace=1",
    },
}
# C++ exceptions need the standard library to be loaded before ASan asks for its functions.
LIBRARIES = {
    "thread": ["libtsan.so", "libstdc++.so.6"],
    "address": ["libasan.so", "libubsan.so", "libstdc++.so.6"],
}


def main() -> None:
    """Run all scenarios under all sanitizers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0, help="time of each scenario")
    parser.add_argument("--jobs", type=int, default=1, help="number of scenarios at a time")
    parser.add_argument("--sanitizers", nargs="+", choices=OPTIONS, default=list(OPTIONS))
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    chosen = parser.parse_args()
    failed = []
    for sanitizer in chosen.sanitizers:
        folder = chosen.build.resolve() / f"sanitize-{sanitizer}"
        one = functools.partial(run, sanitizer, build(sanitizer, folder), folder, chosen.seconds)
        with ThreadPoolExecutor(chosen.jobs) as pool:
            codes = zip(chosen.scenarios, pool.map(one, chosen.scenarios), strict=True)
        failed += [f"{name} ({sanitizer}): exit code {code}" for name, code in codes if code != 0]
    if failed:
        raise SystemExit("failed:\n" + "\n".join(failed))


def build(sanitizer: str, folder: Path) -> Path:
    """Install the package, built with a sanitizer, and return the folder to import it from."""
    site = folder / "site"
    shutil.rmtree(site, ignore_errors=True)
    settings = {
        "build-dir": str(folder / "cmake"),
        "cmake.build-type": "RelWithDebInfo",
        "cmake.define.TORCHREC_IO_SANITIZER": sanitizer,
        "install.strip": "false",  # reports have line numbers
    }
    flags = [f"--config-settings={name}={value}" for name, value in settings.items()]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, f"--target={site}", *flags, str(ROOT)], check=True)
    return site


def run(sanitizer: str, site: Path, folder: Path, seconds: float, scenario: str) -> int:
    """Run a scenario with a sanitizer, print its output, and return the exit code."""
    data = folder / "data" / scenario
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    packages = [path for path in sys.path if path.endswith("-packages")]
    environment = {
        **os.environ,
        **OPTIONS[sanitizer],
        "LD_PRELOAD": ":".join(map(find_library, LIBRARIES[sanitizer])),
        "PYTHONMALLOC": "malloc",  # Python's own allocator hides freed memory
        "PYTHONPATH": ":".join([str(site), *packages, str(ROOT)]),
        "XDG_CACHE_HOME": str(data / "cache"),
    }
    # TSan needs the usual addresses. -S leaves out the editable install, which would be found
    # before the build with the sanitizer.
    command = ["setarch", "-R", sys.executable, "-S", "-m", __package__, str(data), str(seconds)]
    command += [scenario]
    done = subprocess.run(
        command,
        check=False,
        env=environment,
        cwd=data,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    print(f"---- {scenario} ({sanitizer})\n{done.stdout}", end="", flush=True)
    return done.returncode


def find_library(name: str) -> str:
    """Return the path of a library of the compiler."""
    command = [os.environ.get("CXX", "c++"), f"-print-file-name={name}"]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(found):
        raise FileNotFoundError(f"{command[0]} has no {name}: install its sanitizers")
    return os.path.realpath(found)


if __name__ == "__main__":
    main()
