"""Tests of :mod:`torchrec_io.features.tfds`."""
