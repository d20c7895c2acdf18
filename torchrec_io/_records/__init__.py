"""Records of files: formats, indexes and readers."""
