"""Datasets of other files than TFRecord's, one file a kind."""
