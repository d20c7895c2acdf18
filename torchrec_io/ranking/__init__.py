"""Lists of Examples that share a context: TF-Ranking's ``ExampleListWithContext`` (ELWC)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
