"""Commands for searches: search, explore."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from kifu.cli import options as opts
from kifu.cli.app import Outcome, command, progress
from kifu.errors import OutputError

_COLORS = ("black", "white")
_SPELLINGS = (
    "moves such as Q16 D4, a diagram, GAME@MOVE of the catalogue, FILE.sgf@MOVE, a file with any of these, or - for"
    " standard input."
)

_player = opts.option("--player", "NAME", "Only games of this player.")
_color = opts.option("--color", "COLOR", "The color of this player: black or white.", names=_COLORS)
_years = opts.option("--years", "MOVE", "Count a continuation by year: its letter or point in the table, or all.")


@command(
    "kifu search games.parquet '+----/|..../|..../|...X'",
    "kifu search games.parquet '.XO/XO.' --next black -o pattern.svg",
    "kifu search games.parquet Q16 R14 -o found.parquet",
)
@opts.catalogue
@opts.argument("pattern", "PATTERN", f"A pattern: {_SPELLINGS}", type=opts.PLACE, nargs=-1)
@opts.output(
    "Write the games found as a catalogue (.parquet), or a picture (.svg, .png), of --years if given.", required=False
)
@opts.option("--hits", "FILE", "Write the table of hits into this .parquet file.", type=opts.OUTPUT)
@opts.option(
    "--anchor", "ANCHOR", "Place on the board: board, corner, side, centre or anywhere.", shown="by the edges drawn",
    names=("board", "corner", "side", "centre", "anywhere"),
)  # fmt: skip
@opts.flag("--fixed-colors", "Do not find the pattern with Black and White exchanged.")
@opts.option("--next next_", "COLOR", "Only hits that this color continues.", names=_COLORS)
@opts.flag("--consecutive", "Between the moves of the pattern, none is played elsewhere.")
@opts.number("--last-ply", "The pattern is complete after at most N moves.", least=0, most=65535)
@opts.where
@_player
@_color
@_years
@opts.no_index
@opts.jobs
def search(
    catalogue: Path, pattern: opts.Strings, output: Path | None, hits: Path | None, anchor: str | None,
    fixed_colors: bool, next_: str | None, consecutive: bool, last_ply: int | None, where: str | None,
    player: str | None, color: str | None, years: str | None, no_index: bool, jobs: int | None,
) -> Outcome:  # fmt: skip
    """Find a pattern or a sequence of moves, and count how it was continued.

    A diagram has a row per line or between slashes: X and O are stones, . is empty, * anything. The edges - and | of
    the board anchor it. The first search makes an index beside the catalogue, 650 bytes a game.
    """
    from kifu.cli.search_input import apply_options, open_searcher, read_pattern, require_fit, select_games
    from kifu.report.search import view_hits

    _check_suffix(output, ".parquet", ".svg", ".png")
    _check_suffix(hits, ".parquet")
    searcher = open_searcher(catalogue, " ".join(pattern), no_index, jobs)
    wanted = apply_options(
        read_pattern(searcher, " ".join(pattern)), anchor, next_, fixed_colours=fixed_colors, consecutive=consecutive,
        last_ply=last_ply,
    )  # fmt: skip
    games = select_games(searcher, where, player, color)
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


@command("kifu explore games.parquet Q16 D4", "kifu explore games.parquet --years R16 -o years.svg")
@opts.catalogue
@opts.argument("position", "POSITION", f"A position: {_SPELLINGS}", shown="the empty board", type=opts.PLACE, nargs=-1)
@opts.picture
@opts.where
@_player
@_color
@_years
@opts.board(shown="the most frequent one")
@opts.no_index
@opts.jobs
def explore(
    catalogue: Path, position: opts.Strings, output: Path | None, where: str | None, player: str | None,
    color: str | None, years: str | None, board: str | None, no_index: bool, jobs: int | None,
) -> Outcome:  # fmt: skip
    """Count the moves that were played in a position, in any orientation, and their results.

    `kifu serve` shows the same on a board in the browser.
    """
    from kifu.cli.search_input import open_searcher, read_position, require_fit, select_games
    from kifu.report.search import view_exploration

    _check_suffix(output, ".svg", ".png")
    searcher = open_searcher(catalogue, " ".join(position), no_index, jobs)
    start = read_position(searcher, " ".join(position), board)
    games = select_games(searcher, where, player, color)
    found = searcher.explore(start, games, jobs=jobs, progress=progress)
    if found.games == 0:
        require_fit(searcher, start.to_pattern())
    view = view_exploration(searcher, found, games, years)
    return Outcome(view.print, view.to_dict(), write=None if output is None else partial(view.draw, output))


def _check_suffix(path: Path | None, *allowed: str) -> None:
    if path is not None and path.suffix.lower() not in allowed:
        raise OutputError(f"cannot write {path}: the suffix must be {' or '.join(allowed)}, got {path.suffix!r}")
