"""Runner of one Python target: python -m tests.fuzz.python.run TARGET [libFuzzer options]."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import logging
import os
import sys
import warnings
from pathlib import Path

import atheris


def main() -> None:
    """Run a target on inputs from atheris, with the coverage of the package's Python code."""
    _, name, *options = sys.argv
    # Import what the package uses before: only the package itself is measured.
    for module in ("torch.utils.data", "numpy", "PIL.Image", "google.protobuf"):
        importlib.import_module(module)
    warnings.simplefilter("error")
    logging.disable(logging.CRITICAL)
    # atheris cannot instrument modules that the finder of an editable install loads.
    sys.meta_path.sort(key=lambda finder: type(finder).__name__ == "ScikitBuildRedirectingFinder")
    with atheris.instrument_imports(include=["torchrec_io"]):
        target = importlib.import_module(f"tests.fuzz.python.fuzz_{name}")
        for seed in target.seeds():
            target.check(seed)  # so that modules are loaded that are imported on first use

    def check(data: bytes) -> None:
        try:
            target.check(data)
        except BaseException:
            # libFuzzer writes it, too, but a timer of its own may end the process before.
            _write_finding(data, options)
            raise

    # libFuzzer calls exit() and holds the GIL. Arrow would then wait for threads that wait for it.
    ctypes.CDLL(None).on_exit(_on_exit, None)
    atheris.Setup([sys.argv[0], *options], check)
    atheris.Fuzz()


def _end_process(status: int, _: int | None) -> None:
    """End the process without the destructors of libraries."""
    sys.stdout.flush()
    os._exit(status)


_on_exit = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(_end_process)


def _write_finding(data: bytes, options: list[str]) -> None:
    """Write an input under the name that libFuzzer uses."""
    name = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    prefixes = [option for option in options if option.startswith("-artifact_prefix=")]
    prefix = prefixes[-1].partition("=")[2] if prefixes else ""
    Path(f"{prefix}crash-{name}").write_bytes(data)


if __name__ == "__main__":
    main()
