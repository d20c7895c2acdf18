"""Byte sources: local files, pipes, and gzip and zlib streams."""
