"""One file for each kind of column."""
