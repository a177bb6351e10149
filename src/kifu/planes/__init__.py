"""Feature planes: features, plane sets and encoders."""
