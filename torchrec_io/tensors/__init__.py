"""Columns to torch: batches that are one allocation, and collate functions."""

# Both tell others about our types, wherever they are used: PyTorch's default_collate, and what
# sends batches between processes.
from . import collate as collate
from . import transport as transport
