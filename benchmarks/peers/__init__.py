"""One module a peer. Only the one that is measured is imported, in the peer's own environment."""
