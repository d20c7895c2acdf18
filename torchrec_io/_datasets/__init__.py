"""Datasets: records in an order, decoded, batched and shared by processes."""
