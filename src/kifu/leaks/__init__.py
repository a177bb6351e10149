"""Leak detection: positions and games that data sets and catalogues share."""
