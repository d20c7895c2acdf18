"""The optional package Ray."""

from __future__ import annotations

from typing import Any


def import_ray() -> Any:
    """Import and return ray with ``ray.data``.

    Raises:
        ImportError: If one of their packages is not installed.
    """
    try:
        import ray.data  # noqa: PLC0415  # an optional package, and slow to import
    except ImportError as error:
        raise ImportError(
            f"work on a cluster needs Ray: pip install torchrec-io[cluster] ({error})"
        ) from None
    return ray


def import_tensors() -> Any:
    """Import and return Ray's extension types of Arrow for tensors.

    Raises:
        ImportError: If Ray is not installed.
    """
    import_ray()
    import ray.data.extensions  # noqa: PLC0415  # an optional package

    return ray.data.extensions
