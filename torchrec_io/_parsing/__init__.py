"""Parsing of records into the columns of an arena."""
