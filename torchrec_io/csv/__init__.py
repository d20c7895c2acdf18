"""Schemas of lines of CSV text."""

from .schema import Schema as Schema

__all__ = ["Schema"]
