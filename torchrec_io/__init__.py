"""TFRecord data for PyTorch training: indexed, sharded, decoded natively, without TensorFlow.

    loader = DataLoader(TFRecordDataset(paths, schema, batch_size=256), batch_size=None)

``__init__.pyi`` lists the public names. Each is imported on first use, so that code that needs no
torch starts without it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
