"""Publishing of data sets: the data card, Croissant metadata, checksums, versions and changes."""
