"""The Typer application, options shared by several commands, and the entry point."""

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

from kifu.errors import KifuError, OutputError, missing_extras

app = typer.Typer(
    name="kifu",
    help="Turn Go game records into clean, reproducible training sets; train, evaluate and play networks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def output_path(text: str | Path) -> Path:
    """Return the path of an output; raise OutputError for a URL, which as a path would become local folders."""
    from kifu.records.paths import Remote, as_path

    path = as_path(text)
    if isinstance(path, Remote):
        raise OutputError(f"cannot write {path}: outputs must be local paths")
    return path


Output = partial(typer.Option, "-o", "--output", parser=output_path, metavar="PATH")
"""The option for the file or folder that a command writes."""

OutputFile = partial(typer.Option, parser=output_path, metavar="FILE")
"""An option for a further file."""

Sources = Annotated[
    list[str], typer.Argument(metavar="SOURCE", help="Any mix of archives, folders, records and catalogues.")
]
"""Paths or URLs as strings, since `Path` would turn s3://x into s3:/x."""

Catalogues = Annotated[list[str], typer.Argument(metavar="CATALOGUE", help="Catalogues made by `kifu ingest`.")]
Checkpoint = Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="A net or a run directory.")]
Json = Annotated[Path | None, OutputFile(help="Write the result as JSON; - prints it.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Number of threads.", show_default="one per core")]
Engine = Annotated[str, typer.Option(metavar="ENGINE", help="Execution backend: threads, ray, or ray=HOST:PORT.")]


def overrides(what: str, example: str) -> typer.models.OptionInfo:
    """Return the repeatable option --set KEY=VALUE."""
    option: typer.models.OptionInfo = typer.Option(
        "--set", metavar="KEY=VALUE", help=f"Override a value of {what}, such as {example}. Repeatable."
    )
    return option


_INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""


def _show_version(requested: bool) -> None:
    if requested:
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
    """Print pairs of a name and a description, wrapped to the width of a terminal."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    pairs = list(entries)
    indent = max(len(name) for name, _ in pairs)
    for name, text in pairs:
        typer.echo(
            textwrap.fill(text, width, initial_indent=f"{name:<{indent}} ", subsequent_indent=" " * (indent + 1))
        )


def print_markdown(text: str) -> None:
    """Print Markdown, rendered on a terminal and verbatim elsewhere."""
    if not sys.stdout.isatty():
        typer.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


def write_json(text: str, path: Path | None) -> None:
    """Write JSON to a file; print it for "-", and do nothing for None."""
    from kifu.atomic_io import write_file

    if path == Path("-"):
        typer.echo(text, nl=False)
    elif path is not None:
        write_file(path, text.encode())


def main() -> None:
    """Run the command line; a KifuError becomes one line on standard error and exit code 2."""
    # Arrow's own pool keeps freed memory, which costs an ingest 80 MB without a gain in speed.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        with missing_extras():
            app(prog_name="kifu")
    except KifuError as error:
        print(f"kifu: {error}", file=sys.stderr)
        sys.exit(2)
    except SystemExit as leaving:
        if leaving.code == _INTERRUPTED:
            print("kifu: interrupted; no partial output was left", file=sys.stderr)
        raise
