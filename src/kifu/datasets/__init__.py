"""Data sets: formats with readers and writers, manifests, and the loader with its adapters."""
