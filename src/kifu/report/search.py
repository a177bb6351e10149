"""Tables of `kifu search` and `kifu explore`: continuations beside a drawing, counts by year, example games."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from kifu.arrays import Bools
from kifu.errors import RecipeError
from kifu.registry import suggestion
from kifu.report.tables import cell, make_console, make_table, print_lines
from kifu.search.continuations import Continuation, YearCount
from kifu.search.match import match_games
from kifu.search.pattern import Pattern
from kifu.search.results import LETTERS, Drawing, Exploration, Hits
from kifu.search.searcher import GameSummary, Searcher
from kifu.search.traces import trace_games
from kifu.text import Report, counted, format_share, wilson
from kifu.viz.boards import save
from kifu.viz.curves import draw_groups

_MAX_ROWS = 15
"""Continuations that are listed."""

_BAR = 30
"""Characters of the longest bar."""

_GAP = 3
"""Columns between the drawing and the table."""

_ALL = "times"
"""Name of the counts by year of all hits."""


@dataclass(frozen=True, slots=True)
class View:
    """The result of a search as it is shown.

    Attributes:
        by_year: Name of a continuation and its counts by year, if wanted.
    """

    drawing: Drawing
    totals: Sequence[str]
    continuations: Sequence[Continuation]
    found: Report
    by_year: tuple[str, Sequence[YearCount]] | None
    examples: Sequence[tuple[GameSummary, int]]

    def to_dict(self) -> dict[str, Any]:
        """Return the result, the counts by year and the examples as JSON values."""
        values = self.found.to_dict()
        if self.by_year is not None:
            values["by_year"] = {"move": self.by_year[0], "years": [year.to_dict() for year in self.by_year[1]]}
        values["examples"] = [{**game.to_dict(), "ply": ply} for game, ply in self.examples]
        return values

    def print(self) -> None:
        """Print the totals, the drawing with the continuations beside or below it, counts by year, and examples."""
        console = make_console()
        letters = self.drawing.letters([each for each in self.continuations if each.colour][:_MAX_ROWS])
        main: list[RenderableType] = [_picture(self.drawing, letters)]
        if self.continuations:
            main.append(_continuations(self.drawing, self.continuations, letters))
        width = sum(Measurement.get(console, console.options, each).maximum + _GAP for each in main) - _GAP
        if width <= console.width or not console.is_terminal:
            console.width = max(console.width, width)
            grid = Table.grid(padding=(0, _GAP, 0, 0))
            grid.add_row(*main)
            main = [grid]
        parts: list[RenderableType] = [*map(cell, self.totals)]
        if self.by_year is not None:
            main.append(_years_table(*self.by_year))
        if self.examples:
            main.append(_examples(self.examples))
        for part in main:
            parts += ["", part]
        print_lines(console, *parts)

    def draw(self, path: Path) -> None:
        """Draw the counts, or the shares by year, into a .svg or .png file."""
        if self.by_year is None or self.by_year[0] == _ALL:
            save(self.drawing.to_figure(self.continuations, "\n".join(self.totals)), path)
        else:
            move, years = self.by_year
            shares = [(each.count / each.total, *wilson(each.count, each.total)) for each in years]
            names, title = [str(each.year or "unknown") for each in years], f"{move}, share of all (%)"
            save(draw_groups(title, names, {"": 100 * np.array(shares)}, connect=True), path)


def _picture(drawing: Drawing, letters: dict[tuple[int, int], str]) -> Text:
    text = Text("\n".join(drawing.to_text(letters)), no_wrap=True)
    first = 1 if drawing.is_board else 0  # below the column letters
    lines = text.split(allow_blank=True)
    for line in lines[first:]:
        line.highlight_regex(f"[{LETTERS}]", "bold green")
    return Text("\n").join(lines)


def _continuations(
    drawing: Drawing, continuations: Sequence[Continuation], letters: dict[tuple[int, int], str]
) -> Table:
    columns = [("next", "left"), ("", "left"), *((name, "right") for name in ("times", "share", "wins", "95 %"))]
    columns += [("rating", "right"), ("years", "left")]
    with_tenuki = any(each.tenuki is not None for each in continuations)
    table = make_table(*columns, *([("tenuki", "right")] if with_tenuki else []))
    moves = [each for each in continuations if each.colour]
    total = sum(each.count for each in continuations)
    for each in moves[:_MAX_ROWS]:
        first, last = each.first_year, each.last_year
        letter = "" if each.x is None or each.y is None else letters.get((each.x, each.y), "")
        row = [
            f"{letter:1} {drawing.move_name(each)}",
            each.colour or "",
            f"{each.count:,}",
            format_share(each.count, total),
            "" if each.win_rate is None else f"{each.win_rate:.1%}",
            "" if each.win_low is None or each.win_high is None else f"{each.win_low:.0%}-{each.win_high:.0%}",
            "" if each.rating is None else f"{each.rating:.1f}",
            "" if first is None else f"{first}" if first == last else f"{first}-{last}",
        ]
        table.add_row(*row, *([f"{each.tenuki:,}" if each.tenuki else ""] if with_tenuki else []))
    others, ended = moves[_MAX_ROWS:], [each for each in continuations if not each.colour]
    for name, rest in ((counted(len(others), "other"), others), ("none", ended)):
        if rest:
            times = sum(each.count for each in rest)
            table.add_row(f"  {name}", "", f"{times:,}", format_share(times, total))
    return table


def _years_table(move: str, years: Sequence[YearCount]) -> Table:
    table = make_table(("year", "left"), ("all", "right"), (move, "right"), ("share", "right"), ("", "left"))
    largest = max((each.count / each.total for each in years), default=0) or 1.0
    for each in years:
        bar = "#" * round(_BAR * each.count / each.total / largest)
        row = (f"{each.total:,}", f"{each.count:,}", format_share(each.count, each.total), bar)
        table.add_row(str(each.year or "unknown"), *row)
    return table


def _examples(examples: Sequence[tuple[GameSummary, int]]) -> Table:
    """Return the games with their numbers, from 1, as for `kifu show --game`."""
    columns = ("date", "left"), ("Black", "left"), ("White", "left"), ("result", "left")
    table = make_table(("game", "right"), ("move", "right"), *columns)
    for game, ply in examples:
        players = (_player(game.black, game.black_rank), _player(game.white, game.white_rank))
        row = (game.date or str(game.year or ""), *players, game.result or "?")
        table.add_row(str(game.row + 1), str(ply), *map(cell, row))
    return table


def _player(name: str | None, rank: str | None) -> str:
    return (name or "?") + (f" [{rank}]" if rank else "")


def view_hits(searcher: Searcher, hits: Hits, games: Bools | None, years: str | None) -> View:
    """Return the view of hits in `games`, None for all. `years` is the continuation to count by year, or "all"."""
    pattern, drawing, continuations = hits.pattern, hits.drawing, hits.continuations()
    colours = " (colours as in the pattern)" if pattern.both_colours else ""
    totals = [f"{counted(len(hits), 'hit')} in {hits.games:,} of {_count_games(searcher, games)}"]
    totals += [_wins(*hits.wins) + colours] if any(hits.wins) else []
    by_year = _find_years(hits, drawing, pattern, continuations, years)
    return View(drawing, totals, continuations, hits, by_year, _find_examples(searcher, hits, pattern))


def view_exploration(searcher: Searcher, found: Exploration, games: Bools | None, years: str | None) -> View:
    """Return the view of a position, see `view_hits`."""
    drawing, pattern = found.drawing, found.position.to_pattern(both_colours=False)
    totals = [f"{found.games:,} of {_count_games(searcher, games)}"]
    totals += [_wins(*found.wins)] if any(found.wins) else []
    by_year = _find_years(found, drawing, pattern, found.continuations, years)
    return View(drawing, totals, found.continuations, found, by_year, _find_examples(searcher, found, pattern))


def _find_examples(searcher: Searcher, found: Hits | Exploration, pattern: Pattern) -> list[tuple[GameSummary, int]]:
    """Return the latest games, each with the moves before its first hit."""
    examples = []
    for game in searcher.games(found.latest()):
        moves = searcher.moves(game.row)
        examples.append((game, int(match_games(moves, trace_games(moves), pattern).ply.min())))
    return examples


def _count_games(searcher: Searcher, games: Bools | None) -> str:
    rows = searcher.catalogue.rows
    return counted(rows, "game") if games is None else f"{counted(int(games.sum()), 'game')} chosen of {rows:,}"


def _wins(black: int, white: int) -> str:
    return f"Black won {black:,} ({black / (black + white):.1%}), White {white:,} ({white / (black + white):.1%})"


def _find_years(
    found: Hits | Exploration,
    drawing: Drawing,
    pattern: Pattern,
    continuations: Sequence[Continuation],
    years: str | None,
) -> tuple[str, list[YearCount]] | None:
    if years is None:
        return None
    if years.lower() == "all":
        return _ALL, found.by_year()
    chosen = find_continuations(drawing, pattern, continuations, years)
    counts = [found.by_year(each) for each in chosen]
    summed = [YearCount(same[0].year, same[0].total, sum(each.count for each in same)) for same in zip(*counts)]
    return drawing.move_name(chosen[0]), summed


def find_continuations(
    drawing: Drawing, pattern: Pattern, continuations: Sequence[Continuation], move: str
) -> list[Continuation]:
    """Return the continuations by a letter of the drawing, the name of a point, or "pass" or "none".

    Both colours match, and points that a symmetry of the pattern maps to each other. Raises RecipeError if there is no
    such continuation.
    """
    wanted = {point for point, letter in drawing.letters(continuations).items() if letter == move.upper()}
    if not wanted:
        size = (pattern.width, pattern.height) if pattern.anchor == "board" else (25, 25)
        for y in range(drawing.height):
            for x in range(drawing.width):
                if drawing.point_name(x, y).lower() == move.lower():
                    wanted = {pattern.image_point(x, y, k) for k, _ in pattern.stabilizer(*size)}
    names = [drawing.move_name(each) for each in continuations]
    found = [
        each
        for each, name in zip(continuations, names)
        if (each.x, each.y) in wanted or (each.x is None and name == move.lower())
    ]
    if not found:
        hint = suggestion(move, names) or ";"
        raise RecipeError(f"no continuation {move!r}{hint} the first are {', '.join(dict.fromkeys(names[:8]))}")
    return found
