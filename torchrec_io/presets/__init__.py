"""Schemas of well-known datasets, each with the source of its layout.

    TFRecordDataset(paths, tio.presets.imagenet(tio.ImageFeature(size=(224, 224))), batch_size=256)

A preset returns an ordinary :class:`Schema` or :class:`ranking.Schema`, which can be changed:
``Schema({**preset, "image/height": ...})``. The names of features are those that are stored.
:func:`oxe` returns no schema, but the names of the features of a robot dataset.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
