"""Executors for sharded work (threads, Ray), serialization of results, out-of-core sorts."""
