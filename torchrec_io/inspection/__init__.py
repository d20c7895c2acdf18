"""Facts about records whose schema is not known: their features, their kind, a schema that fits."""
