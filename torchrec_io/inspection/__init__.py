"""Facts about records whose schema is not known: their features, and why a schema was inferred."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
