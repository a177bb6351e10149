"""Commands for records: fetch, show, convert."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kifu.cli.app import Outcome, command, progress
from kifu.cli.options import Container, DryRun, GameNumber, Jobs, Move, Output, Picture, Sources
from kifu.errors import printable

_PANEL = "Records"


@command(_PANEL, "kifu fetch sample -o sample", "kifu fetch sample -o sample --dry-run")
def fetch(
    collection: Annotated[
        str,
        typer.Argument(metavar="COLLECTION", help="kgs: the archives of u-go.net; sample: the bundled archive."),
    ],
    output: Annotated[
        Path | None, Output(help="Folder for the archives.", show_default="the collection's name")
    ] = None,
    years: Annotated[
        str | None, typer.Option(metavar="YEARS", help="Years, such as 2001-2014 or 2006,2016-2018.")
    ] = None,
    index: Annotated[str | None, typer.Option(metavar="URL|FILE", help="The index page of the archives.")] = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Number of parallel downloads.")] = 4,
    dry_run: DryRun = False,
) -> Outcome:
    """Download game archives, or write the bundled sample.

    Downloads are verified and can be resumed.
    """
    from kifu.cli.plan import Plan
    from kifu.fetch import KGS_INDEX, fetch_kgs, fetch_sample, parse_years
    from kifu.registry import unknown

    if collection not in ("kgs", "sample"):
        raise unknown("collection", collection, ("kgs", "sample"))
    output = output or Path(collection)
    if collection == "sample":
        report = fetch_sample(output, dry_run=dry_run)
    else:
        wanted = None if years is None else parse_years(years)
        report = fetch_kgs(
            output, years=wanted, index=index or KGS_INDEX, jobs=jobs, dry_run=dry_run, progress=progress
        )
    if dry_run:
        return Plan.of(report.present, [output / name for name in report.fetched]).outcome()
    return Outcome.of_output(output, report)


@command(_PANEL, "kifu show sample --game 3 --move 57", "kifu show sample --game 3 -o board.svg", kernels=True)
def show(game: Container, number: GameNumber = 1, move: Move = None, output: Picture = None) -> Outcome:
    """Show a position of a game as text or as a picture."""
    from kifu.describe import describe_position, draw_position, find_game, position_to_dict
    from kifu.records.paths import as_path

    selected = find_game(as_path(game), number)
    data = position_to_dict(selected, move)
    if output is None:
        return Outcome(describe_position(selected, move), data)
    draw_position(selected.game, selected.plies if move is None else move, output)
    return Outcome(f"drew {printable(output)}", data, summary=True)


@command(_PANEL, "kifu convert sample -o games.olf.gz", "kifu convert sample -o games.zip --dry-run", kernels=True)
def convert(
    sources: Sources,
    output: Annotated[
        Path, Output(help="The file to write: .olf or .sgf, optionally followed by .gz or .bz2, or .zip of .sgf files.")
    ],
    jobs: Jobs = None,
    dry_run: DryRun = False,
) -> Outcome:
    """Convert games to OLF or SGF.

    Board, setup, moves and root properties are written, but no comments and variations.
    """
    from kifu.cli.plan import Plan
    from kifu.convert import check_suffix
    from kifu.convert import convert as convert_games

    check_suffix(output)
    if dry_run:
        return Plan.of_sources(sources, [output]).outcome()
    report = convert_games(sources, output, jobs=jobs, progress=progress)
    return Outcome.of_output(output, report)
