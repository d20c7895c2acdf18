"""Which record, when, where: computed from numbers alone, before a byte is read."""
