"""Names of temporary files and folders."""

from __future__ import annotations

import os

from .local import StrPath

_MAX_START = 50


def temporary_name(path: StrPath) -> str:
    """Return a new name ``.NAME-xxxxxxxxxxxxxxxxxxxxxxxx`` in the folder of a path.

    Patterns and directory listings skip names that start with a dot.
    """
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name[:_MAX_START]}-{os.urandom(12).hex()}")


def make_temporary_folder(path: StrPath) -> str:
    """Create a folder with a temporary name beside a path, and return that name."""
    name = temporary_name(path)
    os.mkdir(name)
    return name
