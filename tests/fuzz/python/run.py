"""Runner of one Python target: python -m tests.fuzz.python.run TARGET [libFuzzer options]."""

from __future__ import annotations

import importlib
import logging
import sys
import warnings

import atheris


def main() -> None:
    """Run a target on inputs from atheris, with the coverage of the package's Python code."""
    _, name, *options = sys.argv
    # Import what the package uses before: only the package itself is measured.
    for module in ("torch.utils.data", "numpy", "PIL.Image", "google.protobuf", "simplejpeg"):
        importlib.import_module(module)
    warnings.simplefilter("error")
    logging.disable(logging.CRITICAL)
    # atheris cannot instrument modules that the finder of an editable install loads.
    sys.meta_path.sort(key=lambda finder: type(finder).__name__ == "ScikitBuildRedirectingFinder")
    with atheris.instrument_imports(include=["torchrec_io"]):
        target = importlib.import_module(f"tests.fuzz.python.fuzz_{name}")
        for seed in target.seeds():
            target.check(seed)  # so that modules are loaded that are imported on first use
    atheris.Setup([sys.argv[0], *options], target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
