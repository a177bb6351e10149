"""Commands for records: fetch, show, convert."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from kifu.cli import options as opts
from kifu.cli.app import Outcome, Plan, command, progress
from kifu.cli.options import Strings
from kifu.errors import RecipeError, printable

_PANEL = "Records"


def _collection_names(ctx: click.Context) -> Iterable[str]:
    from kifu.fetch.collections import COLLECTIONS

    return ("sample", *COLLECTIONS)


@command(_PANEL, "kifu fetch", "kifu fetch sample -o sample", "kifu fetch sample -o sample --dry-run")
@opts.argument(
    "collection", "COLLECTION", "A collection, such as kgs, ogs or fox, or sample, the bundled archive.",
    shown="lists all", names=_collection_names,
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
    collection: str | None, names: Strings, output: Path | None, dates: str | None, everything: bool, listing: bool,
    index: str | None, dry_run: bool,
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


@command(_PANEL, "kifu show sample --game 3 --move 57", "kifu show sample --game 3 -o board.svg", kernels=True)
@opts.game
@opts.game_number
@opts.move
@opts.picture
def show(game: str, number: int, move: int | None, output: Path | None) -> Outcome:
    """Show a position of a game as text or as a picture."""
    from kifu.records.paths import as_path
    from kifu.report.games import describe_position, draw_position, find_game, position_to_dict

    selected = find_game(as_path(game), number)
    data = position_to_dict(selected, move)
    if output is None:
        return Outcome(describe_position(selected, move), data)
    draw_position(selected.game, selected.plies if move is None else move, output)
    return Outcome(f"drew {printable(output)}", data, summary=True)


@command(_PANEL, "kifu convert sample -o games.olf.gz", "kifu convert sample -o games.zip --dry-run", kernels=True)
@opts.sources
@opts.output("The file to write: .olf or .sgf, optionally followed by .gz or .bz2, or .zip of .sgf files.")
@opts.overwrite
@opts.strict
@opts.jobs
@opts.dry_run
def convert(sources: Strings, output: Path, overwrite: bool, strict: bool, jobs: int | None, dry_run: bool) -> Outcome:
    """Convert games to OLF or SGF.

    Board, setup, moves and root properties are written, but no comments and variations.
    """
    from kifu.convert import check_suffix
    from kifu.convert import convert as convert_games

    check_suffix(output)
    if dry_run:
        return Plan.of_sources(sources, [output]).outcome()
    report = convert_games(sources, output, overwrite=overwrite, strict=strict, jobs=jobs, progress=progress)
    return Outcome.of_output(output, report)
