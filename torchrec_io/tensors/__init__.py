"""Batches of Tensors that share one buffer, and functions that join samples into them."""

# Imported for their registrations: with PyTorch's default_collate, and with multiprocessing.
from . import collate as collate
from . import transport as transport
