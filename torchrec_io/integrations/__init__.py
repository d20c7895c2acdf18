"""Support for trainers beyond PyTorch's own contract; each module needs its trainer installed."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
