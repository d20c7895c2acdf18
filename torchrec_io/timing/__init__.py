"""Time that threads spend in the steps of loading."""
