"""Objects in remote stores: S3, GCS, Azure and HTTP by obstore, other schemes by fsspec."""
