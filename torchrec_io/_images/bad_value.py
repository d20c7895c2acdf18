"""The error of values that cannot be decoded."""

from __future__ import annotations


class BadValueError(ValueError):
    """A value that cannot be decoded, with the reason. It becomes a DecodeError of its record."""
