"""Sources of bytes: local files, pipes, gzip and zlib streams."""
