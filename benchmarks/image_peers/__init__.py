"""Decoders and loaders of images, one module each, for ``images.py``.

Each module has a dict ``PEERS``. For each name it has a function that takes a recipe and the number
of threads. It returns another one, which starts an epoch: an iterable over batches in the order of
the records. They are uint8 ``[B, 224, 224, 3]``, and float32 for the recipe "train". Only the
measured module is imported, in the peer's environment.
"""
