"""The loader of a training loop and its position."""
