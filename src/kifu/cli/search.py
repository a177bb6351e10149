"""Commands for searches: index, search, explore."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from kifu.cli.app import Outcome, Plan, command, progress
from kifu.cli.options import (
    Board,
    DryRun,
    Engine,
    Jobs,
    Output,
    OutputFile,
    Overwrite,
    Picture,
    argument,
    flag,
    number,
    option,
)
from kifu.errors import OutputError

_PANEL = "Search"

_Catalogue = Annotated[Path, argument("CATALOGUE", "A catalogue made by `kifu ingest`.")]
_Where = Annotated[str | None, option("SQL", "Only games for which this holds, such as 'black_rating >= 36'.")]
_Player = Annotated[str | None, option("NAME", "Only games of this player.")]
_Colour = Annotated[str | None, option("COLOUR", "The colour of this player: black or white.")]
_Years = Annotated[
    str | None, option("MOVE", "Count a continuation by year: its letter or point in the table, or all.")
]
_NoIndex = Annotated[bool, flag("--no-index", "Do not use the index made by `kifu index`.")]


@command(_PANEL, "kifu index games.parquet", "kifu index corpus --plies 100 --dry-run", kernels=True)
def index(
    catalogue: _Catalogue,
    plies: Annotated[int, number("Number of indexed positions of each game.", max=1000)] = 60,
    overwrite: Overwrite = False,
    jobs: Jobs = None,
    engine: Engine = "threads",
    dry_run: DryRun = False,
) -> Outcome:
    """Index a catalogue, which makes searches fast.

    The index of each Parquet file is written beside it, 650 bytes a game. Files that are indexed already are skipped.
    """
    from kifu.search.build import build_index, files_to_index
    from kifu.search.index import index_path

    if dry_run:
        todo = files_to_index(catalogue, plies)
        return Plan.of_catalogues([catalogue], [index_path(path) for path in todo]).outcome()
    report = build_index(catalogue, plies=plies, overwrite=overwrite, jobs=jobs, engine=engine, progress=progress)
    return Outcome.of_output(catalogue, report)


@command(
    _PANEL,
    "kifu search '+----/|..../|..../|...X' games.parquet",
    "kifu search '.XO/XO.' games.parquet --next black -o pattern.svg",
    "kifu search 'Q16 R14' games.parquet -o found.parquet",
    kernels=True,
)
def search(  # noqa: PLR0913 - command-line options
    pattern: Annotated[
        str, argument("PATTERN", "A diagram or moves, a file with one, an .sgf file, or - for standard input.")
    ],
    catalogue: _Catalogue,
    output: Annotated[
        Path | None,
        Output(help="Write the games found as a catalogue (.parquet), or a picture (.svg, .png), of --years if given."),
    ] = None,
    hits: Annotated[Path | None, OutputFile(help="Write the table of hits into this .parquet file.")] = None,
    anchor: Annotated[
        str | None,
        option("ANCHOR", "Place on the board: board, corner, side, centre or anywhere.", "by the edges drawn"),
    ] = None,
    fixed_colours: Annotated[
        bool, flag("--fixed-colours", "Do not find the pattern with Black and White exchanged.")
    ] = False,
    next_: Annotated[str | None, option("COLOUR", "Only hits that this colour continues.", name="--next")] = None,
    consecutive: Annotated[
        bool, flag("--consecutive", "Between the moves of the pattern, none is played elsewhere.")
    ] = False,
    last_ply: Annotated[
        int | None, number("The pattern is complete after at most N moves.", least=0, max=65535)
    ] = None,
    where: _Where = None,
    player: _Player = None,
    colour: _Colour = None,
    years: _Years = None,
    no_index: _NoIndex = False,
    jobs: Jobs = None,
) -> Outcome:
    """Find a pattern or a sequence of moves, and count how it was continued.

    A diagram has a row per line or between slashes: X and O are stones, . is empty, * anything. The edges - and | of
    the board anchor it.
    """
    from kifu.cli.search_input import apply_options, read_pattern, require_fit, select_games
    from kifu.report.search import view_hits
    from kifu.search.searcher import Searcher

    _check_suffix(output, ".parquet", ".svg", ".png")
    _check_suffix(hits, ".parquet")
    wanted = apply_options(
        read_pattern(pattern), anchor, next_, fixed_colours=fixed_colours, consecutive=consecutive, last_ply=last_ply
    )
    searcher = Searcher(catalogue, use_index=not no_index)
    games = select_games(searcher, where, player, colour)
    found = searcher.find(wanted, games, jobs=jobs, progress=progress)
    if found.games == 0:
        require_fit(searcher, wanted)
    view = view_hits(searcher, found, games, years)

    def write() -> None:
        if hits is not None:
            found.write(hits)
        if output is not None and output.suffix.lower() == ".parquet":
            found.write_games(output)
        elif output is not None:
            view.draw(output)

    return Outcome(view.print, view.to_dict(), write=write)


@command(
    _PANEL,
    "kifu explore games.parquet 'Q16 D4'",
    "kifu explore games.parquet --years R16 -o years.svg",
    kernels=True,
)
def explore(  # noqa: PLR0913 - command-line options
    catalogue: _Catalogue,
    position: Annotated[
        str,
        argument(
            "POSITION",
            "Moves such as 'Q16 D4', GAME@MOVE of the catalogue, FILE.sgf@MOVE, a diagram, or a file.",
            "the empty board",
        ),
    ] = "",
    output: Picture = None,
    where: _Where = None,
    player: _Player = None,
    colour: _Colour = None,
    years: _Years = None,
    board: Annotated[str | None, Board(show_default="the most frequent one")] = None,
    no_index: _NoIndex = False,
    jobs: Jobs = None,
) -> Outcome:
    """Count the moves that were played in a position, in any orientation, and their results.

    `kifu serve` shows the same on a board in the browser.
    """
    from kifu.cli.search_input import read_position, require_fit, select_games
    from kifu.report.search import view_exploration
    from kifu.search.searcher import Searcher

    _check_suffix(output, ".svg", ".png")
    searcher = Searcher(catalogue, use_index=not no_index)
    start = read_position(searcher, position, board)
    games = select_games(searcher, where, player, colour)
    found = searcher.explore(start, games, jobs=jobs, progress=progress)
    if found.games == 0:
        require_fit(searcher, start.to_pattern())
    view = view_exploration(searcher, found, games, years)
    return Outcome(view.print, view.to_dict(), write=None if output is None else partial(view.draw, output))


def _check_suffix(path: Path | None, *allowed: str) -> None:
    if path is not None and path.suffix.lower() not in allowed:
        raise OutputError(f"cannot write {path}: the suffix must be {' or '.join(allowed)}, got {path.suffix!r}")
