"""One module for each peer. Only the measured one is imported, in the peer's environment."""
