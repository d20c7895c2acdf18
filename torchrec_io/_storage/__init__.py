"""Byte sources: local files, pipes, and gzip and zlib streams."""

# Whatever a daemon thread uses, the exit of the interpreter must be prepared.
from . import exit as _exit  # noqa: F401
