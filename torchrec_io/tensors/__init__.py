"""Columns to torch: batches that are one allocation, and collate functions."""

from . import crossing as crossing  # says how batches cross between processes
