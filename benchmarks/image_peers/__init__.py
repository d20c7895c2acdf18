"""Decoders and loaders of images, one module each, for ``images.py``.

Each module has a dict ``PEERS``: for each name a function that takes a recipe and returns a function
that starts an epoch: an iterable over batches, uint8 ``[B, 224, 224, 3]``, in the order of the
records. Only the measured module is imported, in the peer's environment.
"""
