"""Decoding of encoded images."""
