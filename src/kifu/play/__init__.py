"""Nets as players: a GTP engine, and matches between engines."""
