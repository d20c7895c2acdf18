"""Directories written by TensorFlow Datasets (TFDS)."""
