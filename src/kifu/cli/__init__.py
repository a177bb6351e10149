"""The command line. A command is a few lines that call one function of a room; rooms are loaded when needed."""

from kifu.cli import data, evaluate, match, nets, play, predict, train  # noqa: F401 - they bring their commands
from kifu.cli.app import app, main

__all__ = ["app", "main"]
