"""Feature specs and the Schema that holds them."""
