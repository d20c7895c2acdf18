"""TFRecord data for PyTorch training: indexed, sharded, decoded natively, without TensorFlow.

    loader = DataLoader(TFRecordDataset(paths, schema, batch_size=256), batch_size=None)

``__init__.pyi`` lists the public names. Each is imported on first use, so that code that needs no
torch starts without it.
"""

import sys
from typing import Any

import lazy_loader

if sys.platform == "win32":
    raise ImportError(
        "torchrec_io does not support Windows: it reads, locks and replaces files with POSIX "
        "functions. Use it on Linux, or in WSL 2"
    )

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415  # it takes longer than all else

        return version("torchrec-io")
    return _load(name)
