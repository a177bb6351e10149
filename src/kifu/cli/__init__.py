"""Command line. A command calls one function of a package; packages are imported when a command runs."""

from kifu.cli.app import app, main

__all__ = ["app", "main"]
