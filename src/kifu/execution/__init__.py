"""Executors for sharded work (threads, Ray), serialization of results, one out-of-core sort."""
