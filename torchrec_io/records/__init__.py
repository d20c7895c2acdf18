"""Bytes to records: storage, record formats, the byte-offset index, and the reader."""
