"""Commands for records: fetch, show, convert."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kifu.cli import options as opts
from kifu.cli.app import Outcome, Plan, command, echo, progress
from kifu.errors import FormatError, RecipeError, printable
from kifu.learn import PACKAGED

if TYPE_CHECKING:
    from kifu.records.paths import AnyPath


@command("kifu fetch", "kifu fetch sample -o sample", "kifu fetch sample -o sample --dry-run", kernels=False)
@opts.argument(
    "collection", "COLLECTION", "A collection, such as kgs, ogs or fox, or sample, the bundled archive.",
    shown="lists all", names=opts.names_of("collections"),
)  # fmt: skip
@opts.argument(
    "names", "NAME", "Names of files or of their folders, such as 9d, or patterns: '[1-9]d'.", nargs=-1, required=False
)
@opts.output("Folder for the files.", shown="the collection's name")
@opts.option("--dates", "DATES", "Dates of the files, such as 2001-2014,2016-03,2020-12-08..2021-01-31.")
@opts.flag("--all everything", "Fetch all files of the collection.")
@opts.flag("--list listing", "List the files with their sizes; fetch nothing.")
@opts.option("--index", "URL|FILE", "The index of the files.", shown="the publisher's", type=opts.PLACE)
@opts.dry_run
def fetch(
    collection: str | None, names: opts.Strings, output: Path | None, dates: str | None, everything: bool,
    listing: bool, index: str | None, dry_run: bool,
) -> Outcome:  # fmt: skip
    """Download files of a published collection, or write the bundled sample.

    Downloads are verified and can be resumed. Without a collection, all collections are listed.
    """
    from kifu.cli import collections
    from kifu.fetch.collections import COLLECTIONS, FileChoice, parse_dates

    choice = FileChoice(names, () if dates is None else parse_dates(dates))
    if collection is None:
        return collections.list_all()
    if listing and collection != "sample":
        return collections.list_one(collection, choice, index)
    if collection in COLLECTIONS and not choice and not everything:
        raise RecipeError(
            f"no files of {collection} are chosen; give names, --dates or --all, see kifu fetch {collection} --list"
        )
    return collections.fetch(collection, output or Path(collection), choice, index, dry_run=dry_run or listing)


@command("kifu show sample --game 3 --move 57", "kifu show sample --game 3 -o board.svg", "kifu show sample")
@opts.argument(
    "what", "FILE", "A record, archive, folder, catalogue, data set, manifest, net, run directory or packaged net.",
    type=opts.SOURCE, names=PACKAGED,
)  # fmt: skip
@opts.number("--game number", "Show a position of this game of an archive, folder or catalogue.", shown="the only one")
@opts.move
@opts.number("--row", "Show this example, from 0, of a data set as a board.", least=0)
@opts.picture
def show(what: str, number: int | None, move: int | None, row: int | None, output: Path | None) -> Outcome:
    """Show a position of a game; of any other file, the contents and checks.

    A record shows its last position.
    """
    from kifu.records.paths import as_path

    path = as_path(what)
    if row is not None or (output is not None and number is None):
        from kifu.datasets.formats import detect_format
        from kifu.report.describe import describe_row, draw_row, row_to_dict

        if isinstance(path, Path) and detect_format(path) is not None:
            if row is None:
                raise RecipeError(f"-o {output} draws one example of {path}; --row is missing")
            return _drawn(describe_row(path, row), row_to_dict(path, row), output, partial(draw_row, path, row))
    if row is not None:
        raise FormatError(f"{path} is not a data set and has no rows, got --row {row}")
    if (number, move, output) != (None, None, None):
        return _show_position(path, number or 1, move, output)
    if what in PACKAGED:
        from kifu.learn.net import net_file

        path = net_file(what)
    from kifu.report.games import is_record

    if is_record(path):
        return _show_position(path, 1, None, None)
    from kifu.report.describe import describe

    description = describe(path)
    return Outcome(description, description)


def _show_position(path: AnyPath, number: int, move: int | None, output: Path | None) -> Outcome:
    from kifu.report.games import describe_position, draw_position, find_game, position_to_dict

    found = find_game(path, number)
    plies = found.plies if move is None else move
    data = position_to_dict(found, move)
    return _drawn(describe_position(found, move), data, output, partial(draw_position, found.game, plies))


def _drawn(text: str, data: Any, output: Path | None, draw: Callable[[Path], None]) -> Outcome:
    """Return the outcome of a command that shows a board, as a picture too if there is an output."""
    if output is None:
        return Outcome(text, data)
    draw(output)
    return Outcome(f"{text}\ndrew {printable(output)}", data, summary=True)


@command("kifu convert sample -o games.olf.gz", "kifu convert sample -o games.zip --dry-run")
@opts.sources
@opts.output(
    "The file to write: .olf or .sgf, optionally followed by .gz or .bz2, or .zip of .sgf files; - prints SGF."
)
@opts.overwrite
@opts.strict
@opts.jobs
@opts.dry_run
def convert(
    sources: opts.Strings, output: Path, overwrite: bool, strict: bool, jobs: int | None, dry_run: bool
) -> Outcome:
    """Convert games to OLF or SGF.

    Board, setup, moves and root properties are written, but no comments and variations.
    """
    from kifu.convert import check_suffix
    from kifu.convert import convert as convert_games

    to_screen = output == Path("-")
    if not to_screen:
        check_suffix(output)
    if dry_run:
        return Plan.of_sources(sources, [output]).outcome()
    if not to_screen:
        report = convert_games(sources, output, overwrite=overwrite, strict=strict, jobs=jobs, progress=progress)
        return Outcome.of_output(output, report)
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="kifu-") as folder:
        path = Path(folder, "games.sgf")
        report = convert_games(sources, path, strict=strict, jobs=jobs, progress=progress)
        with path.open("rb") as file:
            for line in file:
                echo(line.decode().removesuffix("\n")) if sys.stdout.isatty() else click.echo(line, nl=False)
    return Outcome(None, report)
