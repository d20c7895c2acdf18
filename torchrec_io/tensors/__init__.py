"""Columns to torch: batches that are one allocation, and collate functions."""
