"""Endpoints of the explorer: continuations of positions, and the games behind them."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field
from starlette.routing import Route

from kifu.errors import RecipeError
from kifu.search.continuations import Continuation, YearCount
from kifu.search.drawing import Drawing
from kifu.search.position import board_position
from kifu.web.api import Deadline, endpoint
from kifu.web.positions import Played, PositionParams, first_occurrences, position_line
from kifu.web.site import Site

_MAX_GAMES = 20
"""Number of games that one request describes."""


class GamesParams(PositionParams):
    """Games with a position."""

    rows: Annotated[str, Field(max_length=300, pattern=r"^[0-9]{1,12}(,[0-9]{1,12})*$")]


def explore(site: Site, params: PositionParams, deadline: Deadline) -> dict[str, Any]:
    """Return the line to a position, and its continuations."""
    corpus = site.corpus(params.corpus)
    line = position_line(corpus, params)
    board = line.board()
    rows = corpus.table.select(params.chosen, deadline)
    deadline.check()
    found = corpus.searcher.explore(board_position(board), rows, progress=deadline.progress)
    letters = Drawing.of_position(found.position).letters(found.continuations)
    black, white = found.wins
    return {
        "line": line.to_json(),
        "to_play": board.to_play,
        "games": found.games,
        "black_wins": black,
        "white_wins": white,
        "years": years_json(found.by_year()),
        "continuations": [
            continuation_json(each, letters) | {"years": years_json(found.by_year(each))}
            for each in found.continuations
        ],
    }


def continuation_json(each: Continuation, letters: dict[tuple[int, int], str]) -> dict[str, Any]:
    """Return a continuation as JSON values, with its letter on the board, None for those without one."""
    at = (each.x, each.y)
    return each.to_dict() | {"letter": letters.get(at) if None not in at else None}  # type: ignore[arg-type]


def years_json(counts: list[YearCount]) -> list[tuple[int, int]]:
    """Return (year, count) of the known years, ascending, with years in which nothing was counted."""
    return [(each.year, each.count) for each in counts if each.year is not None]


def position_games(site: Site, params: GamesParams, deadline: Deadline) -> list[dict[str, Any]]:
    """Describe games, and where in them a position occurs first: `ply`, None if it does not."""
    corpus, rows = site.corpus(params.corpus), [int(row) for row in params.rows.split(",")]
    if len(rows) > _MAX_GAMES:
        raise RecipeError(f"at most {_MAX_GAMES} games can be described, got {len(rows)}")
    for row in rows:
        corpus.table.require_row(row)
    chosen = np.zeros(corpus.table.rows, np.bool_)
    chosen[rows] = True
    plies = Played(line := position_line(corpus, params), first_occurrences(corpus, line, chosen, deadline)).plies()
    return [each.to_dict() | {"ply": plies.get(each.row)} for each in corpus.searcher.games(rows)]


def explore_routes(site: Site) -> list[Route]:
    """Return the routes of this module."""
    return [
        endpoint("/api/explore", PositionParams, lambda params, end: explore(site, params, end), site.explore),
        endpoint(
            "/api/explore/games", GamesParams, lambda params, end: position_games(site, params, end), site.explore
        ),
    ]
