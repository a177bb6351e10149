"""Endpoints of the explorer and of the pattern search."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import partial
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from starlette.routing import Route

from kifu.arrays import Bools
from kifu.errors import RecipeError
from kifu.search.continuations import Continuation
from kifu.search.notation import format_anchor, format_pattern, parse_pattern
from kifu.search.pattern import Pattern, Rectangle
from kifu.search.position import board_position, pattern_from_position
from kifu.search.results import Drawing, FoundGames, Hits
from kifu.search.searcher import Searcher
from kifu.web.api import Deadline, endpoint
from kifu.web.positions import Played, PositionParams, first_occurrences, last_point, position_line
from kifu.web.site import Corpus, CorpusParams, Filter, Site

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
    return {"line": line.to_json(), "to_play": board.to_play} | _counts_json(found, found.continuations)


def _counts_json(found: FoundGames, continuations: list[Continuation]) -> dict[str, Any]:
    """Return the counts of a position or a pattern and its continuations, each with its letter on the board, or None.

    Years are pairs (year, count), ascending, of the known years, with years in which nothing was counted.
    """

    def years(each: Continuation | None = None) -> list[tuple[int, int]]:
        return [(counted.year, counted.count) for counted in found.by_year(each) if counted.year is not None]

    letters = found.drawing.letters(continuations)
    black, white = found.wins
    return {
        "games": found.games,
        "black_wins": black,
        "white_wins": white,
        "years": years(),
        "continuations": [
            each.to_dict() | {"letter": letters.get((each.x, each.y)), "years": years(each)}  # type: ignore[arg-type]
            for each in continuations
        ],
    }


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


_MAX_RESULTS, _MAX_BYTES = 8, 192 << 20
"""Number of results that are kept, and the bytes of their hits."""

_MAX_HITS, _SAMPLE = 3_000_000, 1000
"""Largest number of hits that is expected of a search, and the number of games that this is estimated from."""

_CORNER = 9
"""Columns and rows of the region that is cut out of a game, at least."""

_MAX_TEXT = 4000


class SearchParams(CorpusParams):
    """A search for a pattern: `count` hits after the first `first`; `every` lists all of a game, not only the first."""

    pattern: Annotated[str, Field(min_length=1, max_length=_MAX_TEXT)]
    first: int = Field(0, ge=0, le=10**9)
    count: int = Field(12, ge=0, le=48)
    every: bool = False


class PatternParams(PositionParams):
    """A pattern in text notation, or if that is "", the region around the last move of a position."""

    pattern: Annotated[str, Field(max_length=_MAX_TEXT)] = ""


class SearchResults:
    """The latest results of searches, for many threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, Filter, str], Hits] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, corpus: Corpus, number: int, chosen: Filter, pattern: Pattern, deadline: Deadline) -> Hits:
        """Search for a pattern, or return the result of an equal search.

        Raises RecipeError if the pattern occurs too often.
        """
        key = number, chosen, format_pattern(pattern)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        rows = corpus.table.select(chosen, deadline)
        _check_frequency(corpus.searcher, pattern, rows, deadline)
        hits = corpus.searcher.find(pattern, rows, progress=deadline.progress)
        with self._lock:
            self._kept[key] = hits
            while len(self._kept) > 1 and self._too_large():
                self._kept.popitem(last=False)
        return hits

    def _too_large(self) -> bool:
        return len(self._kept) > _MAX_RESULTS or sum(each.table.nbytes for each in self._kept.values()) > _MAX_BYTES


def _check_frequency(searcher: Searcher, pattern: Pattern, rows: Bools | None, deadline: Deadline) -> None:
    """Raise RecipeError if a pattern occurs too often, by its hits in evenly spaced games."""
    candidates = np.arange(searcher.catalogue.rows) if rows is None else np.flatnonzero(rows)
    if len(candidates) <= _SAMPLE:
        return
    sample = np.zeros(searcher.catalogue.rows, np.bool_)
    sample[candidates[np.linspace(0, len(candidates) - 1, _SAMPLE).astype(np.int64)]] = True
    expected = len(searcher.find(pattern, sample, progress=deadline.progress)) * len(candidates) // _SAMPLE
    if expected > _MAX_HITS:
        raise RecipeError(
            f"the pattern occurs about {expected:,} times, more than {_MAX_HITS:,}: add stones, or choose fewer games"
        )


def search(site: Site, results: SearchResults, params: SearchParams, deadline: Deadline) -> dict[str, Any]:
    """Return the counts of a pattern, its continuations, and a page of hits."""
    corpus = site.corpus(params.corpus)
    hits = results.find(corpus, params.corpus, params.chosen, parse_pattern(params.pattern), deadline)
    return {
        "pattern": pattern_json(hits.pattern),
        "hits": len(hits),
        **_counts_json(hits, hits.continuations()),
        "page": _page(corpus.searcher, hits, params),
    }


def _page(searcher: Searcher, hits: Hits, params: SearchParams) -> list[dict[str, Any]]:
    table = hits.table
    if not params.every:
        table = table.take(np.sort(np.unique(table["row"].to_numpy(), return_index=True)[1]))
    found = table.slice(params.first, params.count).to_pylist()
    games = searcher.games([each["row"] for each in found])
    positions = searcher.positions([(each["row"], each["ply"]) for each in found])
    size = hits.pattern.width, hits.pattern.height
    page = []
    for hit, game, position in zip(found, games, positions):
        region = [hit["x"], hit["y"], *(size[::-1] if hit["symmetry"] & 4 else size)]
        page.append(
            game.to_dict()
            | {
                "ply": hit["ply"],
                "exchanged": hit["exchanged"],
                "region": region,
                "width": position.width,
                "height": position.height,
                "stones": position.stones.tolist(),
            }
        )
    return page


def pattern_json(pattern: Pattern) -> dict[str, Any]:
    """Return a pattern as JSON values, with its text and the edges of the board that it touches."""
    return {
        "text": format_pattern(pattern), "width": pattern.width, "height": pattern.height, "cells": pattern.cells,
        "anchor": format_anchor(pattern.anchor), "edges": Drawing.of_pattern(pattern).edges,
        "both_colours": pattern.both_colours, "moves": [list(move) for move in pattern.moves],
        "consecutive": pattern.consecutive, "next_colour": pattern.next_colour or 0,
        "actual_colour": pattern.actual_colour, "last_ply": pattern.last_ply,
    }  # fmt: skip


def describe_pattern(site: Site, params: PatternParams, deadline: Deadline) -> dict[str, Any]:
    """Return a pattern as JSON values."""
    if params.pattern:
        return pattern_json(parse_pattern(params.pattern))
    line = position_line(site.corpus(params.corpus), params)
    region = _corner(last_point(line), line.width, line.height)
    return pattern_json(pattern_from_position(board_position(line.board()), region))


def _corner(point: int | None, width: int, height: int) -> Rectangle:
    """Return the region in a corner of a board that contains a point and its neighbours; the board if it is small."""
    y, x = divmod(width - 1 if point is None else point, width)  # the upper right corner, where games begin
    right, lower = 2 * x >= width, 2 * y >= height
    across = max(_CORNER, (width - x if right else x + 1) + 1)
    down = max(_CORNER, (height - y if lower else y + 1) + 1)
    if across >= width or down >= height:
        return Rectangle(0, width - 1, 0, height - 1)
    left, top = width - across if right else 0, height - down if lower else 0
    return Rectangle(left, left + across - 1, top, top + down - 1)


def patterns_routes(site: Site) -> list[Route]:
    """Return the routes of this module."""
    return [
        endpoint("/api/explore", PositionParams, partial(explore, site), site.explore),
        endpoint("/api/explore/games", GamesParams, partial(position_games, site), site.explore),
        endpoint("/api/search", SearchParams, partial(search, site, SearchResults()), site.search, method="POST"),
        endpoint("/api/pattern", PatternParams, partial(describe_pattern, site), site.quick),
    ]
