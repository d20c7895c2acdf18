"""Other formats to TFRecord and back, and whole files rearranged."""
