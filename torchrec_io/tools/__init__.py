"""Tools for whole TFRecord files: merge, split, reshard, shuffle, subset, compress and so on."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
