"""Encoding of values and writing of TFRecord files."""
