"""TensorFlow's messages as protobuf reads and writes them, the reference for other code.

These are the package's classes, which ``tests/test_messages.py`` compares with those of protoc.
"""

from torchrec_io.messages import Example, Feature, FeatureList, Features, SequenceExample

__all__ = ["Example", "Feature", "FeatureList", "Features", "SequenceExample"]
