"""The command line. A command is a few lines that call one function of a room; rooms are loaded when needed."""

# They bring their commands, in the order in which the help lists them.
# isort: off
from kifu.cli import data, plan  # noqa: F401
from kifu.cli import nets, train  # noqa: F401
from kifu.cli import evaluate, predict  # noqa: F401
from kifu.cli import play, match  # noqa: F401
# isort: on

from kifu.cli.app import app, main

__all__ = ["app", "main"]
