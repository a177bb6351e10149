"""Parsers of game records in all their formats and containers; flat arrays of many games."""
