"""Records in files: formats, the byte-offset index, and readers."""
