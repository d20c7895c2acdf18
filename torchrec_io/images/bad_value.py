"""What is checked of values that are decoded after parsing."""

from __future__ import annotations

BAD_BOOL = "a byte of a bool array is neither 0 nor 1"


class BadValueError(ValueError):
    """A value cannot be decoded; the message says why. Becomes a DecodeError with its place."""
