"""Conversion of other formats to TFRecord and back."""
