"""Directories that TensorFlow Datasets (TFDS) wrote, read without TensorFlow."""
