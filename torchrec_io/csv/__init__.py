"""Lines of CSV text as columns."""
