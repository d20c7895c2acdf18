"""TensorFlow's messages as protobuf reads and writes them, the reference for other code.

They are the package's own, which ``tests/test_messages.py`` compares with protoc's.
"""

from torchrec_io.messages import Example, Feature, FeatureList, Features, SequenceExample

__all__ = ["Example", "Feature", "FeatureList", "Features", "SequenceExample"]
