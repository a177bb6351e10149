"""The command line itself: the program, what its commands have in common, and how it ends."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kifu.errors import KifuError, OutputError

app = typer.Typer(
    name="kifu",
    help="Turns Go game records into clean, reproducible training sets.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Sources = Annotated[list[str], typer.Argument(metavar="SOURCE", help="Archives, or folders with archives.")]
"""Paths or URLs: a `Path` would make s3:/x of s3://x."""

Catalogues = Annotated[list[str], typer.Argument(metavar="CATALOGUE", help="What `kifu ingest` made.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Threads.", show_default="one for each core")]
Engine = Annotated[
    str, typer.Option(metavar="ENGINE", help="Who does the work: threads, ray (on this machine), or ray=HOST:PORT.")
]


def written(text: str | Path) -> Path:
    """The path of what is to be made. Raises OutputError for a URL: as a path it would be folders of this machine."""
    from kifu.records.paths import Remote, as_path

    path = as_path(text)
    if isinstance(path, Remote):
        raise OutputError(f"cannot write {path}: what is made is written to this machine only")
    return path


Written = partial(typer.Option, parser=written, metavar="PATH")
"""An option for a file or folder to be made."""

_EXTRAS = {"torch": "learn", "lightning": "learn", "safetensors": "learn", "tensorboard": "learn", "ray": "cluster"}
"""What only some commands need, and the extra that brings it."""

_INTERRUPTED = 130
"""The exit code that typer makes of Ctrl-C, as shells do."""


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"kifu {version('kifu')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def print_list(entries: Iterable[tuple[str, str]]) -> None:
    """A name and what it is, one line each; a terminal that is too narrow for one gets several."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    told = list(entries)
    names = max(len(name) for name, _ in told)
    for name, text in told:
        typer.echo(textwrap.fill(text, width, initial_indent=f"{name:<{names}} ", subsequent_indent=" " * (names + 1)))


def print_markdown(text: str) -> None:
    """Markdown, which a terminal shows set in its own width."""
    if not sys.stdout.isatty():
        typer.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


def main() -> None:
    """Runs the command line; every error that kifu raises on purpose is one line, and exit code 2."""
    # What Arrow is given by its own pool it keeps; a catalogue in the making then takes 80 MB more, for no speed.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        app(prog_name="kifu")
    except KifuError as error:
        print(f"kifu: {error}", file=sys.stderr)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        print(f"kifu: this needs {error.name}, which pip install 'kifu[{_EXTRAS[error.name]}]' brings", file=sys.stderr)
        sys.exit(2)
    except SystemExit as leaving:
        if leaving.code == _INTERRUPTED:
            print("kifu: interrupted; no unfinished file was given its name", file=sys.stderr)
        raise
