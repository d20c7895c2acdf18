"""Batches of Tensors that share one buffer, and functions that join samples into them."""

# Imported so that PyTorch's default_collate and multiprocessing know the classes.
from . import registration as registration
