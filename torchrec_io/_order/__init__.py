"""The order of records, computed from numbers before any data is read."""
