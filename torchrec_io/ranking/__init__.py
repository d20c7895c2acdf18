"""Ranking lists: records of type ExampleListWithContext."""
