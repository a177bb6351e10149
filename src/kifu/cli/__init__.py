"""Command line. A command calls one function of a package; packages are imported when a command runs."""

# Importing a module registers its commands, in the order in which the help lists them.
# isort: off
from kifu.cli import records, corpus, search, datasets  # noqa: F401
from kifu.cli import learning, play, serve, demo, reference  # noqa: F401
# isort: on

from kifu.cli.app import app, main

__all__ = ["app", "main"]
