"""Global inputs of networks: numbers that describe a position besides its planes, such as komi and the players' ranks.

`encode_inputs` is their only definition; training, evaluation, prediction and play use it. What is unknown is encoded
as zeros, which is also what dropout makes of an input during training. docs/nets.md lists all inputs.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kifu.arrays import Bools, Floats, Indices
from kifu.corpus.cleaning import TIME_COLUMNS, thinking_times
from kifu.corpus.schema import map_distinct, to_numpy
from kifu.errors import RecipeError
from kifu.planes.encoder import RATING_COLUMNS, ratings_of
from kifu.records.game import Game
from kifu.records.meta import parse_date, parse_main_before, parse_minutes, parse_overtime, thinking_seconds
from kifu.registry import unknown

CONDITION_COLUMNS = ("komi", "handicap", "rules", *RATING_COLUMNS, "year", "date", "place", *TIME_COLUMNS)
"""The columns of the catalogue from which `Conditions.from_rows` reads."""

_RATING_KNOTS = (12, 22, 27, 30, 32, 33, 34, 35, 36, 37, 38, 39, 40, 45)
"""Ratings (`kifu.Rank.rating`) between which ranks are interpolated: 20, 10, 5, 2 kyu, each dan, 5 dan professional."""

_YEAR_KNOTS = (1950, 1980, 1996, 2002, 2008, 2014, 2017, 2020, 2026)

_TIME_KNOTS = (0, 1, 2, 3, 4, 5, 6, 8)
"""Binary logarithms of seconds per move."""

KOMI_UNIT = 10
"""Points of komi that are encoded as 1."""

_MAX_ENCODED = 3
"""Largest encoded komi and handicap; others are clipped."""

_MOVES = 120
"""Moves of a player in a game of usual length, see `kifu.records.meta.thinking_seconds`."""

_AREA, _TERRITORY = 1.0, 0.0

Server: TypeAlias = Literal["katago", "ogs", "kgs", "fox", "tygem", "gogod", "go4go"]
"""Servers and collections of games, in KataGo's order. Use the most similar one for others."""

SERVERS: tuple[Server, ...] = get_args(Server)

Imitated: TypeAlias = Server | Literal["profile"]
"""Whom a human-style network imitates: players of a server, or those of KataGo's profiles, given ranks and year."""

_PLACES = re.compile(
    r"(?P<ogs>\bOGS\b|online-go)|(?P<kgs>\bKGS\b|gokgs)|(?P<fox>foxwq|野狐)|(?P<tygem>tygem)", re.IGNORECASE
)

NO_LIMIT, ABSOLUTE = 1, 2
CLOCKS = {"simple": 3, "byo-yomi": 4, "canadian": 5, "fischer": 6}
"""Kinds of time control, numbered as in KataGo; 0 is an unknown one."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Known facts about G games besides their stones, such as komi and ranks. NaN is unknown.

    Attributes:
        komi: [G] float32, points for White.
        area: [G] float32, 1 for area scoring, 0 for territory scoring.
        rating: [G, 2] float32, ratings of Black and White (`kifu.Rank.rating`).
        seconds: [G] float32, thinking time per move, in a game of 120 moves by each player.
        server: [G] float32, index of SERVERS.
        day: [G] float32, days since 1 January 1970.
        clock: [G, 5] float32: the kind of time control; seconds of main time; seconds of a period, of Canadian overtime
            per move; number of byo-yomi periods; moves of a Canadian period.
    """

    komi: Floats
    handicap: Floats
    area: Floats
    rating: Floats
    year: Floats
    seconds: Floats
    server: Floats
    day: Floats
    clock: Floats

    @classmethod
    def unknown(cls, games: int) -> Conditions:
        """Return the conditions of games of which nothing is known."""
        rating, clock = np.full((games, 2), np.nan, np.float32), np.full((games, 5), np.nan, np.float32)
        komi, handicap, area, year, seconds, server, day = np.full((7, games), np.nan, np.float32)
        return cls(komi, handicap, area, rating, year, seconds, server, day, clock)

    @classmethod
    def from_rows(cls, rows: pa.RecordBatch) -> Conditions:
        """Return the conditions of rows of the catalogue with the `CONDITION_COLUMNS`."""
        return cls(
            _column(rows, "komi"),
            np.nan_to_num(_column(rows, "handicap")),
            map_distinct(rows["rules"], _scoring, np.float32),
            ratings_of(rows),
            _column(rows, "year"),
            (thinking_times(rows) / _MOVES).astype(np.float32),
            map_distinct(rows["place"], _server, np.float32),
            to_numpy(pc.fill_null(rows["date"].cast(pa.int32()).cast(pa.float32()), float("nan"))),
            _clock(
                _column(rows, "main_minutes"),
                map_distinct(rows["overtime_kind"], lambda kind: CLOCKS.get(kind or "", 0), np.float32),
                _column(rows, "overtime_count"),
                _column(rows, "overtime_seconds"),
            ),
        )

    @classmethod
    def of_game(cls, *, komi: float | None, handicap: int | None, rules: str) -> Conditions:
        """Return the conditions of one game by its komi, handicap (None is 0) and RU; the others are unknown."""
        found = cls.unknown(1)
        found.komi[0], found.handicap[0], found.area[0] = _number(komi), handicap or 0, _scoring(rules)
        return found

    @classmethod
    def from_games(cls, games: Sequence[Game]) -> Conditions:
        """Return the conditions of games by their root properties."""
        found, times = cls.unknown(len(games)), np.full((4, len(games)), np.nan, np.float32)
        for g, game in enumerate(games):
            found.komi[g] = _number(game.komi)
            found.handicap[g] = game.handicap or 0
            found.area[g] = _scoring(game.rules)
            found.rating[g] = [_number(None if rank is None else rank.rating) for rank in game.ranks]
            date = parse_date(game.date)
            found.year[g] = _number(None if date is None else date.year)
            if date is not None and date.first is not None:
                found.day[g] = np.datetime64(date.first).astype(np.int64)
            found.server[g] = _server(game.text("PC"))
            # DGS writes the main time into OT, CGoban 1 the overtime into TM.
            main, extra = game.text("TM"), game.text("OT")
            minutes, overtime = parse_minutes(main), parse_overtime(extra) or parse_overtime(main)
            minutes = parse_main_before(extra) if minutes is None else minutes
            found.seconds[g] = _number(thinking_seconds(minutes, overtime)) / _MOVES
            kind = (0, 1, 0) if overtime is None else (CLOCKS[overtime.kind], overtime.count, overtime.seconds)
            times[:, g] = (_number(minutes), *kind)
        return replace(found, clock=_clock(*times))

    def with_ranks(self, white_to_play: Bools, mover: float | None = None, opponent: float | None = None) -> Conditions:
        """Return the conditions with other ratings; None keeps a rating. white_to_play: [G]."""
        rating, game = self.rating.copy(), np.arange(len(self.komi))
        side = white_to_play.astype(np.int64)
        for k, value in ((side, mover), (1 - side, opponent)):
            if value is not None:
                rating[game, k] = value
        return replace(self, rating=rating)

    def at_server(self, server: Server | None) -> Conditions:
        """Return the conditions on another server, or, for None, without server, day and clock."""
        if server is not None:
            return replace(self, server=np.full_like(self.server, SERVERS.index(server)))
        none = Conditions.unknown(len(self.server))
        return replace(self, server=none.server, day=none.day, clock=none.clock)

    def take(self, games: Indices) -> Conditions:
        """Return the conditions of some of the games, in that order."""
        return Conditions(*(getattr(self, each.name)[games] for each in fields(self)))


def _column(rows: pa.RecordBatch, name: str) -> Floats:
    return to_numpy(pc.fill_null(rows[name].cast(pa.float32()), float("nan")))


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)


def _clock(minutes: Floats, kind: Floats, count: Floats, seconds: Floats) -> Floats:
    """Return clocks [G, 5], given the main time and the overtime, whose kind is 0 without one."""
    timed = np.where(kind > 0, kind, np.where(minutes > 0, np.float32(ABSOLUTE), np.float32(NO_LIMIT)))
    kind = np.where(np.isnan(minutes), np.where(kind > 0, np.float32(0), np.float32(np.nan)), timed)
    moves, periods = count * (kind == CLOCKS["canadian"]), count * (kind == CLOCKS["byo-yomi"])
    times = np.stack([60 * minutes, seconds / np.maximum(moves, 1), periods, moves], 1)
    times = np.where(kind[:, None] > NO_LIMIT, np.nan_to_num(times), 0)
    return np.column_stack([kind, times]).astype(np.float32)


def _server(place: str | None) -> float:
    """Return the index of the server that PC names, or NaN."""
    found = _PLACES.search(place or "")
    return SERVERS.index(found.lastgroup) if found else np.nan


def _scoring(rules: str | None) -> float:
    """Return _AREA, _TERRITORY or NaN for the text of RU."""
    text = (rules or "").strip().lower()
    if text.startswith(("jap", "kor", "territory")):
        return _TERRITORY
    area = ("chi", "aga", "nz", "new zealand", "ing", "goe", "tromp", "bga", "french", "area")
    return _AREA if text.startswith(area) else np.nan


def _signed(white: Bools, values: Floats, scale: float) -> Floats:
    """[B, 2] 1 and the value over the scale for Black, its negative for White; zeros where unknown."""
    value = values / scale
    known = np.isfinite(value)
    signed = np.clip(np.where(white, -value, value), -_MAX_ENCODED, _MAX_ENCODED)
    return np.where(known[:, None], np.stack([np.ones_like(value), signed], 1), 0)


def _ranks(known: Conditions, white: Bools) -> list[Floats]:
    side, position = white.astype(np.int64), np.arange(len(white))
    return [_interpolated(known.rating[position, k], _RATING_KNOTS) for k in (side, 1 - side)]


def _interpolated(values: Floats, knots: Sequence[float]) -> Floats:
    """[B, K] weights of the two knots around each value, which sum to 1; zeros where the value is NaN."""
    points, known = np.array(knots, np.float32), np.flatnonzero(~np.isnan(values))
    inside = np.clip(values[known], points[0], points[-1])
    below = np.minimum(np.searchsorted(points, inside, "right"), len(points) - 1) - 1
    weights = np.zeros((len(values), len(points)), np.float32)
    weights[known, below + 1] = (inside - points[below]) / np.diff(points)[below]
    weights[known, below] = 1 - weights[known, below + 1]
    return weights


def _metadata(known: Conditions, white: Bools) -> list[Floats]:
    """KataGo's metadata on 19 x 19; networks of KataGo set the size of the board themselves."""
    rows = pkgutil.resolve_name("kifu.katago.metadata:profile_rows")(known, 361)
    return [rows[np.arange(len(white)), white.astype(np.int64)]]


@dataclass(frozen=True, slots=True)
class GlobalInput:
    """One of the inputs that a recipe may name.

    Attributes:
        sizes: Numbers of values of its parts, each of which may be unknown independently of the others.
        encode: Returns the values of each part, [B, size], given the conditions of B positions, and whether White is to
            move in each.
        always_known: Dropout leaves it alone.
    """

    title: str
    sizes: tuple[int, ...]
    encode: Callable[[Conditions, Bools], list[Floats]]
    always_known: bool = False


INPUTS: dict[str, GlobalInput] = {
    "colour": GlobalInput(
        "colour to move", (1,), lambda known, white: [np.where(white, -1, 1)[:, None]], always_known=True
    ),
    "komi": GlobalInput(
        "komi, from the mover's side", (2,), lambda known, white: [_signed(white, known.komi, -KOMI_UNIT)]
    ),
    "handicap": GlobalInput(
        "handicap stones, from the mover's side", (2,), lambda known, white: [_signed(white, known.handicap, 5)]
    ),
    "rules": GlobalInput(
        "area or territory scoring",
        (2,),
        lambda known, white: [np.stack([known.area == _AREA, known.area == _TERRITORY], 1)],
    ),
    "ranks": GlobalInput("ranks of the mover and of the opponent", (len(_RATING_KNOTS),) * 2, _ranks),
    "year": GlobalInput(
        "year of the game", (len(_YEAR_KNOTS),), lambda known, white: [_interpolated(known.year, _YEAR_KNOTS)]
    ),
    "time": GlobalInput(
        "thinking time per move",
        (len(_TIME_KNOTS),),
        lambda known, white: [_interpolated(np.log2(np.maximum(known.seconds, 1)), _TIME_KNOTS)],
    ),
    "profile": GlobalInput(
        "ranks and year as KataGo's profiles give them",
        (192,),
        lambda known, white: _metadata(known.at_server(None), white),
        always_known=True,
    ),
    "metadata": GlobalInput("ranks, server, date and clock for KataGo", (192,), _metadata, always_known=True),
}
"""All inputs by name. Nets store the names; what they mean never changes."""


def check_inputs(names: Sequence[str]) -> None:
    """Raise RecipeError for a name that is unknown or listed twice."""
    for name in names:
        if name not in INPUTS:
            raise unknown("input", name, INPUTS)
        if list(names).count(name) > 1:
            raise RecipeError(f"input {name!r} is listed twice")


def input_size(names: Sequence[str]) -> int:
    """Return the number of values of some inputs."""
    return sum(sum(INPUTS[name].sizes) for name in names)


def encode_inputs(names: Sequence[str], conditions: Conditions, game: Indices, white: Bools) -> Floats:
    """Return the global inputs of positions, [B, input_size(names)] float32, in the order of the names.

    Args:
        game: [B], indices of the conditions.
        white: [B], whether White is to move.
    """
    # The positions of a game share one row for each colour, and there are far fewer games than positions.
    first = game.min(initial=len(conditions.komi))
    pair = 2 * (game - first) + white
    used = np.bincount(pair) > 0
    pairs, row = np.flatnonzero(used), np.cumsum(used) - 1
    known, white_of_pair = conditions.take(first + pairs // 2), pairs % 2 == 1
    rows = np.empty((len(pairs), input_size(names)), np.float32)
    parts = [part for name in names for part in INPUTS[name].encode(known, white_of_pair)]
    np.concatenate(parts, 1, out=rows, casting="same_kind")
    values: Floats = rows.take(row[pair], axis=0)
    return values


def shift_komi(names: Sequence[str], values: Floats, points: Floats) -> tuple[Floats, Floats]:
    """Give the side to move more points of komi.

    Args:
        values: [B, input_size(names)] float32, as from `encode_inputs`.
        points: [B] float32, negative to take points.

    Returns:
        The values, and the points that were given, [B] float32: 0 where komi is unknown or clipped.
    """
    known = input_size(names[: names.index("komi")])
    komi = known + 1
    given = np.where((values[:, known] == 1) & (np.abs(values[:, komi]) < _MAX_ENCODED), points, np.float32(0))
    shifted = values.copy()
    shifted[:, komi] = np.clip(values[:, komi] + given / KOMI_UNIT, -_MAX_ENCODED, _MAX_ENCODED)
    return shifted, given


def input_parts(names: Sequence[str]) -> list[tuple[str, slice, bool]]:
    """Return, for each part of the inputs, its name, where its values are, and whether it may be unknown."""
    found, start = [], 0
    for name in names:
        for size in INPUTS[name].sizes:
            found.append((name, slice(start, start + size), not INPUTS[name].always_known))
            start += size
    return found
