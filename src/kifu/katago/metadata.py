"""Metadata inputs of KataGo's human-style networks: ranks, time control, date and source of a game.

The 192 numbers of metadataInputNC, after KataGo v1.17.2: SGFMetadata::fillMetadataRow, and the parsing of records by
`writetrainingdata`. Where KataGo skips a game because it cannot parse a field, the field is unknown here:

    unparsable rank              unknown; KGS's doubtful "5k?", which KataGo rejects, is 5k
    unparsable time limit        unknown; so is overtime without a main time
    TM[0] without overtime       no limit
    date without day or month    the first day of the month or year, as KataGo does for GoGoD
    no date                      1 January 1970, KataGo's default
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kifu.arrays import Bools, Doubles, Floats, Indices
from kifu.corpus.schema import OVERTIME_COLUMNS, map_distinct, to_numpy
from kifu.datasets.global_inputs import ABSOLUTE, CLOCKS, NO_LIMIT, SERVERS, Conditions, Server
from kifu.records.meta import is_recognized

META_COLUMNS = (
    "width", "height", "black_rank", "white_rank", "black_rating", "white_rating", "black_pro", "white_pro",
    "black_program", "white_program", "format", "date", "date_text", "year", "time_text", "main_minutes", "overtime",
    *OVERTIME_COLUMNS,
)  # fmt: skip
"""The columns of the catalogue that `metadata_rows` reads."""

WIDTH = 192
_RANKS = 34
_RANK_INPUTS, _RATED_INPUT, _CLOCK_INPUTS, BOARD_INPUT, _DATE_INPUTS, _SOURCE_INPUTS = 6, 74, 75, 86, 87, 151
_PERIODS = np.multiply.accumulate([7.0, *[80_000 ** (1 / 31)] * 31])
"""Days per period of each sine and cosine pair that encodes the date, from a week to 1,533 years."""

_TWO_PI = 6.283185307179586476925

_UNKNOWN = 0
_DAY = 86_400
_LIMITS = np.array([3 * _DAY, _DAY, 50, 50])
_TIME_INPUTS = np.array([[60.0, 6.5, 0.4], [1.0, 3.0, 0.3], [2.0, 1.5, 0.5], [2.0, 1.5, 0.25]])
"""For main time, period, periods and moves: what is added before the logarithm, subtracted after it, and the factor."""

_INVALID_COUNT, _INVALID_SECONDS = 1000, 10**8
"""KataGo takes more periods, and longer ones, for mistakes."""

_TITLES = ("meijin", "kisei", "judan", "holder", "challenger", "oza", "tianyuan")
"""Titles that stand for ranks in collections of professional games."""

_UNRANKED, _MISSING, _OTHER = -1, -2, -3
_NO_RANK = 0
_NO_DAY = np.iinfo(np.int64).min


Ranks: TypeAlias = Indices
"""[G] ranks: 1 for 9 dan or a professional, 9 for 1 dan, 10 for 1 kyu; _NO_RANK if unknown, or _UNRANKED."""

Clock: TypeAlias = tuple[Indices, Doubles]
"""Kinds of time control, [G]; and [G, 4]: seconds of main time, seconds of a period (in Canadian overtime, of a move),
number of byo-yomi periods, moves per period of Canadian overtime."""


def metadata_rows(batch: pa.RecordBatch, source: Server) -> Floats:
    """Compute the metadata inputs of G games for both sides to move.

    Args:
        batch: Rows of the catalogue with META_COLUMNS. Main time has a resolution of 0.1 s there.

    Returns:
        [G, 2, 192] float32 for Black (0) or White (1) to move, computed in float64 and rounded, as in KataGo.
    """
    ranks = [_ranks(batch, side, source) for side in ("black", "white")]
    humans = [~to_numpy(batch[f"{side}_program"]) for side in ("black", "white")]
    area = to_numpy(batch["width"]).astype(np.int64) * to_numpy(batch["height"])
    sources = np.full(len(batch), SERVERS.index(source))
    return _rows(ranks, humans, _clock(batch, source), area, _days(batch), sources)


def profile_rows(known: Conditions, points: int) -> Floats:
    """Compute the metadata inputs of G games of people by what is known of them.

    Where nothing is recorded, it is what KataGo's profiles state, such as rank_5k: KGS, 20 minutes and 5 periods of
    30 s, 1 March 2020, or 1 September of an earlier year, and the rank of the other player.

    Returns:
        [G, 2, 192] float32, as `metadata_rows`.
    """
    recorded, rating, kind = ~np.isnan(known.server), known.rating, known.clock[:, 0]
    source = np.where(recorded, known.server, SERVERS.index("kgs")).astype(np.int64)
    collection = np.isin(source, _COLLECTIONS)
    rating = np.where(np.isnan(rating) & ~recorded[:, None], rating[:, ::-1], rating)
    nameless = np.where(recorded & (source == SERVERS.index("kgs")), _UNRANKED, _NO_RANK)
    ranks = 41 - np.clip(np.floor(np.nan_to_num(rating)), 41 - _RANKS, 40).astype(np.int64)
    ranks = np.where(np.isnan(rating), nameless[:, None], ranks)
    ranks = np.where((source == SERVERS.index("gogod"))[:, None], (ranks > 0) & (ranks < 10), ranks)  # professionals
    always = np.isin(source, [SERVERS.index("ogs"), SERVERS.index("kgs")])  # record that there is no limit
    clock = np.where(np.isnan(kind)[:, None], np.array([_UNKNOWN, 0, 0, 0, 0]), known.clock.astype(np.float64))
    clock[np.isnan(kind) & always, 0] = NO_LIMIT
    clock[np.isnan(kind) & ~recorded] = _PROFILE_CLOCK
    clock[collection] = 0
    past = np.clip(np.nan_to_num(known.year, nan=_PROFILE_YEAR), 1970, _PROFILE_YEAR).astype(np.int64)
    months = (past - 1970) * 12 + np.where(past == _PROFILE_YEAR, 2, 8)
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    days = np.where(np.isnan(known.day), days, np.nan_to_num(known.day)).astype(np.int64)
    humans = [np.ones(len(rating), np.bool_)] * 2
    return _rows(list(ranks.T), humans, (clock[:, 0], clock[:, 1:]), np.full(len(rating), points), days, source)


_PROFILE_YEAR, _PROFILE_CLOCK = 2020, (CLOCKS["byo-yomi"], 1200.0, 30.0, 5, 0)
_COLLECTIONS = [SERVERS.index("gogod"), SERVERS.index("go4go")]


def _rows(
    ranks: Sequence[Ranks], humans: Sequence[Bools], clock: Clock, area: Indices, all_days: Indices, source: Indices
) -> Floats:
    out = np.zeros((len(area), 2, WIDTH), np.float32)
    for mover in range(2):
        for k, side in enumerate((mover, 1 - mover)):
            first = _RANK_INPUTS + k * _RANKS
            out[:, mover, k] = humans[side]
            out[:, mover, 2 + k] = ranks[side] == _UNRANKED
            out[:, mover, 4 + k] = ranks[side] == _NO_RANK
            out[:, mover, first : first + _RANKS] = np.arange(_RANKS) < ranks[side][:, None]
    out[:, :, _RATED_INPUT] = np.where(np.isin(source, _COLLECTIONS), 0.0, 0.5)[:, None]
    kind, times = clock
    out[np.arange(len(out)), :, _CLOCK_INPUTS + kind.astype(np.int64)] = 1.0
    added, subtracted, factor = _TIME_INPUTS.T
    out[:, :, 82:86] = (factor * (np.log(np.minimum(times, _LIMITS) + added) - subtracted))[:, None]
    out[:, :, BOARD_INPUT] = (0.5 * np.log(area / 361.0))[:, None]
    days, day_index = np.unique(all_days, return_inverse=True)
    turns = days[:, None] / _PERIODS * _TWO_PI
    waves = np.stack([np.cos(turns), np.sin(turns)], 2).reshape(-1, 2 * len(_PERIODS)).astype(np.float32)
    out[:, :, _DATE_INPUTS:_SOURCE_INPUTS] = waves[day_index][:, None]
    out[np.arange(len(out)), :, _SOURCE_INPUTS + source] = 1.0
    return out


def _ranks(batch: pa.RecordBatch, side: str, source: Server) -> Ranks:
    text = batch[f"{side}_rank"]
    rating = to_numpy(pc.fill_null(batch[f"{side}_rating"], float("nan")))
    rated = ~np.isnan(rating)
    pro = to_numpy(pc.fill_null(batch[f"{side}_pro"], False))
    special = map_distinct(text, _special_rank, np.int64)
    # In the catalogue's ratings, 30 kyu is 2, 1 kyu 31, 1 dan 32, 9 dan 40; fractions round down.
    inverse = np.where(pro, 1, 41 - np.floor(np.where(rated, rating, 41)).astype(np.int64))
    if source == "gogod":  # writes 9d for professionals; its kyu ranks may be historical, and strong
        amateur = map_distinct(text, lambda t: t is not None and t.lower().endswith("ama"), np.bool_)
        inverse[rated & ~amateur & (rating >= 32)] = 1
        rated &= amateur | (rating >= 32)
        inverse[~rated] = 0
    inverse = np.where(special > 0, special, inverse)
    unranked = (special == _UNRANKED) | ((special == _MISSING) & (source == "kgs"))
    unknown = ~unranked & ~rated & (special <= 0)
    return np.where(unranked, _UNRANKED, np.where(unknown, _NO_RANK, inverse))


def _special_rank(text: str | None) -> int:
    """Return the inverse rank of a spelling that the catalogue does not parse, or _MISSING, _UNRANKED or _OTHER."""
    if text is None:
        return _MISSING
    if text == "-":
        return _UNRANKED
    if text.lower() in _TITLES:
        return 1
    dan = re.fullmatch(r"([1-9]\d?)a", text)
    return 10 - min(int(dan[1]), 9) if dan else _OTHER


def _clock(batch: pa.RecordBatch, source: Server) -> Clock:
    if source in ("gogod", "go4go"):
        return np.full(len(batch), _UNKNOWN), np.zeros((len(batch), 4))
    main = np.round(60.0 * to_numpy(pc.fill_null(batch["main_minutes"], float("nan"))).astype(np.float64), 1)
    overtime_kind, overtime = _overtime(batch)
    no_time = to_numpy(batch["time_text"].is_null()) & np.isnan(main)
    kind = np.where(np.isnan(main), _UNKNOWN, overtime_kind)
    kind[(overtime_kind == NO_LIMIT) & (main > 0)] = ABSOLUTE
    if source in ("ogs", "kgs"):  # always record the time control
        kind[(overtime_kind == NO_LIMIT) & no_time] = NO_LIMIT
    times = np.concatenate([main[:, None], overtime], 1)
    return kind, np.where(kind[:, None] > NO_LIMIT, times, 0.0)


def _overtime(batch: pa.RecordBatch) -> tuple[Indices, Doubles]:
    """Return the kinds, [G], NO_LIMIT without overtime; and period seconds, periods, moves, [G, 3]."""
    none = map_distinct(batch["overtime"], lambda text: text is None or is_recognized("overtime", text), np.bool_)
    kind = map_distinct(batch["overtime_kind"], lambda name: CLOCKS.get(name or "", _UNKNOWN), np.int64)
    kind[(kind == _UNKNOWN) & none] = NO_LIMIT
    count = to_numpy(pc.fill_null(batch["overtime_count"], 1)).astype(np.int64)
    seconds = np.round(to_numpy(pc.fill_null(batch["overtime_seconds"], 0)).astype(np.float64), 3)
    kind[(count > _INVALID_COUNT) | (seconds >= _INVALID_SECONDS)] = _UNKNOWN
    periods, moves = count * (kind == CLOCKS["byo-yomi"]), count * (kind == CLOCKS["canadian"])
    return kind, np.stack([seconds / np.maximum(moves, 1), periods, moves], 1)


def _days(batch: pa.RecordBatch) -> Indices:
    days = to_numpy(pc.fill_null(batch["date"].cast(pa.int32()).cast(pa.int64()), _NO_DAY))
    months = map_distinct(batch["date_text"], _first_of_month, np.int64)
    years = to_numpy(pc.fill_null(batch["year"].cast(pa.int64()), 1970))
    of_year = (years - 1970).astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)
    return np.where(days != _NO_DAY, days, np.where(months != _NO_DAY, months, of_year))


def _first_of_month(text: str | None) -> int:
    """Return the days from 1970 to the first of the month of a date such as 1846-07 or 1846-07-00."""
    month = re.match(r"\D*(\d{4}-(?:0[1-9]|1[0-2]))(?!\d)", text or "", re.ASCII)
    return int(np.datetime64(month[1], "D").astype(np.int64)) if month else _NO_DAY
