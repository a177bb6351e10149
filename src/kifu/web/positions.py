"""Positions as parameters, and the games in which they occur."""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from kifu.errors import RecipeError
from kifu.point import BLACK, POINT_MASK, WHITE, WHITE_BIT, parse_sgf
from kifu.search.position import board_position
from kifu.search.searcher import Rows
from kifu.web.api import Deadline
from kifu.web.game_table import CorpusParams
from kifu.web.lines import MAX_MOVES, Line
from kifu.web.site import Corpus

_COLOURS = {"B": BLACK, "W": WHITE}

_MOVES = "([BW]?([a-y]{2}|--))*"


class PositionParams(CorpusParams):
    """A position. The filter's `board` is the size of the empty board that moves begin on, 19x19 without one.

    Attributes:
        moves: SGF points, or "--" for passes; "B" or "W" before one is its colour, otherwise they alternate.
        game: Row of the game that the moves continue; None for the empty board.
        ply: Number of moves of the game.
    """

    moves: Annotated[str, Field(max_length=3 * MAX_MOVES, pattern=f"^{_MOVES}$")] = ""
    game: Annotated[int, Field(ge=0, le=10**12)] | None = None
    ply: int = Field(0, ge=0, le=MAX_MOVES)


class PlayedParams(CorpusParams):
    """A choice of games, of those in which a position occurs.

    Attributes:
        position: "START.MOVES.NEXT", or "" for all games. START is the size of an empty board ("19x19"), or the row of
            a game and a ply of it ("12-57"). MOVES are as in `PositionParams`. NEXT is the move after the position,
            with its colour ("Wdd"), or "" for any.
    """

    position: Annotated[
        str,
        Field(
            max_length=3 * MAX_MOVES,
            pattern=rf"^$|^([0-9]{{1,2}}x[0-9]{{1,2}}|[0-9]{{1,12}}-[0-9]{{1,4}})\.{_MOVES}\.([BW][a-y]{{2}})?$",
        ),
    ] = ""


class Played(NamedTuple):
    """Games in which a position occurs.

    Attributes:
        games: A row for each game, ascending, with the columns of `kifu.search.hits.HITS`: its first occurrence.
    """

    line: Line
    games: pa.Table

    def plies(self) -> dict[int, int]:
        """Return the number of moves before the first occurrence, by row."""
        return dict(zip(self.games["row"].to_pylist(), self.games["ply"].to_pylist()))


def find_played(corpus: Corpus, params: PlayedParams, deadline: Deadline) -> Played | None:
    """Return the games in which the position of the parameters occurs, with the next move; None for all games.

    Raises:
        GameError: A move is impossible.
        RecipeError: There is no such game.
        TimeLimitError: If it takes too long.
    """
    if not params.position:
        return None
    start, moves, following = params.position.split(".")
    row, _, ply = start.partition("-")
    at = {"game": int(row), "ply": int(ply)} if ply else {"board": start}
    line = position_line(corpus, PositionParams.model_validate({"moves": moves} | at))
    games = first_occurrences(corpus, line, None, deadline)
    if following:
        y, x = divmod(parse_sgf(following[1:], line.width, line.height), line.width)
        wanted = {"next_x": x, "next_y": y, "next_colour": _COLOURS[following[0]]}
        chosen = pc.field("next_ply") == pc.field("ply")  # a later ply follows a pass
        for name, value in wanted.items():
            chosen &= pc.field(name) == value
        games = games.filter(chosen)
    return Played(line, games)


def first_occurrences(corpus: Corpus, line: Line, games: Rows | None, deadline: Deadline) -> pa.Table:
    """Return the first hit of the final position of a line in each of some games, by default of all."""
    pattern = board_position(line.board()).to_pattern(both_colours=False)
    hits = corpus.searcher.find(pattern, games, progress=deadline.progress).table
    row = hits["row"].to_numpy()
    return hits.take(np.flatnonzero(np.diff(row, prepend=-1)))


def position_line(corpus: Corpus, params: PositionParams) -> Line:
    """Return the line to a position.

    Raises:
        GameError: A move is impossible, or the game has fewer moves.
        RecipeError: There is no such game, or there are too many moves.
    """
    if params.game is None:
        width, height = map(int, (params.board or "19x19").split("x"))
        line = Line.model_validate({"width": width, "height": height})
    else:
        line = Line.of_arrays(corpus.searcher.moves(params.game), params.ply)
    board = line.board()
    colour, moves = board.to_play, list(line.moves)
    for letter, point in re.findall("([BW]?)([a-y]{2}|--)", params.moves):
        colour = _COLOURS.get(letter, colour)
        move = parse_sgf("" if point == "--" else point, line.width, line.height)
        moves.append(move | (WHITE_BIT if colour == WHITE else 0))
        colour = BLACK + WHITE - colour
    if len(moves) > MAX_MOVES:
        raise RecipeError(f"a line must have at most {MAX_MOVES:,} moves, got {len(moves):,}")
    return line.model_copy(update={"moves": moves})


def last_point(line: Line) -> int | None:
    """Return the point of the last move of a line; None without one, or after a pass."""
    point = line.moves[-1] & POINT_MASK if line.moves else line.width * line.height
    return point if point < line.width * line.height else None
