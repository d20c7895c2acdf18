"""Records to columns: schemas, parsing, decoding."""
