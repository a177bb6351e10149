"""The corpus: ingest games into a catalogue, clean them, find duplicates, split, query and count them."""
