"""What KataGo's human-style nets are told of a game beside the position: ranks, time, date, and where it is from.

The 192 numbers of metadataInputNC, after KataGo v1.17.2: SGFMetadata::fillMetadataRow, and what `writetrainingdata`
makes of the words of a record. Where KataGo gives a game up since a word says nothing to it, we say that it is unknown:

    a rank that nobody can read        unknown; KGS's doubtful "5k?", which it does not take, is 5k
    a time limit that nobody can read  unknown; so is overtime of which the record has no main time
    TM[0] without overtime             no limit
    a date without day or month        the first day of the month or year, as it has it for GoGoD
    no date                            1 January 1970, the date that a record of its own has before it is set
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.schema import map_distinct, to_numpy
from kifu.records import tygem
from kifu.records.meta import is_recognized
from kifu.records.times import parse_overtime

Source: TypeAlias = Literal["katago", "ogs", "kgs", "fox", "tygem", "gogod", "go4go"]
"""Where games are from: KataGo's own list, in its order. What is none of these is nearest to the one like it."""

META_COLUMNS = (
    "width", "height", "black_rank", "white_rank", "black_rating", "white_rating", "black_pro", "white_pro",
    "black_program", "white_program", "format", "date", "date_text", "year", "time_text", "main_minutes", "overtime",
)  # fmt: skip
"""Columns of the catalogue that `metadata_rows` needs."""

WIDTH = 192
_RANKS = 34
_RANK_AT, _RATED_AT, _CLOCK_AT, _DATE_AT, _SOURCE_AT = 6, 74, 75, 87, 151
_PERIODS = np.multiply.accumulate([7.0, *[80_000 ** (1 / 31)] * 31])
"""Days of a turn of each pair of waves that tell the date, from a week to 1,533 years."""

_TWO_PI = 6.283185307179586476925

_UNKNOWN, _NONE, _ABSOLUTE, _SIMPLE, _BYO_YOMI, _CANADIAN, _FISCHER = range(7)
_KINDS = {"simple": _SIMPLE, "byo-yomi": _BYO_YOMI, "canadian": _CANADIAN, "fischer": _FISCHER}
_DAY = 86_400
_MOST_MAIN, _MOST_PERIOD, _MOST_COUNT = 3 * _DAY, _DAY, 50
_ABSURD_COUNT, _ABSURD_SECONDS = 1000, 10**8
"""KataGo takes overtime beyond these for a mistake."""

_TITLES = ("meijin", "kisei", "judan", "holder", "challenger", "oza", "tianyuan")
"""Ranks in collections of professional games."""

_NO_RANK, _UNRANKED, _NO_WORD = -1, -2, -3
_NO_DAY = np.iinfo(np.int64).min


class _Standing(NamedTuple):
    """A side of G games. inverse: [G] int64, 1 for 9 dan or a professional, 9 for 1 dan, 10 for 1 kyu, 0 if it is not
    known; unranked, unknown: [G] bool."""

    inverse: npt.NDArray[np.int64]
    unranked: npt.NDArray[np.bool_]
    unknown: npt.NDArray[np.bool_]


class _Clock(NamedTuple):
    """Time limits of G games, [G] each. kind: _UNKNOWN .. _FISCHER; main, period: float64 seconds, the latter a move's
    in Canadian overtime; periods, moves: int64."""

    kind: npt.NDArray[np.int64]
    main: npt.NDArray[np.float64]
    period: npt.NDArray[np.float64]
    periods: npt.NDArray[np.int64]
    moves: npt.NDArray[np.int64]


def metadata_rows(batch: pa.RecordBatch, source: Source) -> npt.NDArray[np.float32]:
    """[G, 2, 192] float32: what a row of each game says if Black (0) or White (1) is to move.

    batch: rows of the catalogue, with META_COLUMNS. Main time is told to a tenth of a second, as the catalogue has it.
    Computed in float64 and then rounded, as KataGo does.
    """
    out = np.zeros((len(batch), 2, WIDTH), np.float32)
    sides = [_standing(batch, side, source) for side in ("black", "white")]
    humans = [~to_numpy(batch[f"{side}_program"]) for side in ("black", "white")]
    for mover in range(2):
        for k, side in enumerate((mover, 1 - mover)):
            first = _RANK_AT + k * _RANKS
            out[:, mover, k] = humans[side]
            out[:, mover, 2 + k] = sides[side].unranked
            out[:, mover, 4 + k] = sides[side].unknown
            out[:, mover, first : first + _RANKS] = np.arange(_RANKS) < sides[side].inverse[:, None]
    out[:, :, _RATED_AT] = 0.0 if source in ("gogod", "go4go") else 0.5
    _fill_clock(out, _clock(batch, source))
    area = to_numpy(batch["width"]).astype(np.int64) * to_numpy(batch["height"])
    out[:, :, 86] = (0.5 * np.log(area / 361.0))[:, None]
    days, which = np.unique(_days(batch), return_inverse=True)
    turns = days[:, None] / _PERIODS * _TWO_PI
    waves = np.stack([np.cos(turns), np.sin(turns)], 2).reshape(-1, 2 * len(_PERIODS)).astype(np.float32)
    out[:, :, _DATE_AT:_SOURCE_AT] = waves[which][:, None]
    out[:, :, _SOURCE_AT + get_args(Source).index(source)] = 1.0
    return out


def _fill_clock(out: npt.NDArray[np.float32], clock: _Clock) -> None:
    out[np.arange(len(out)), :, _CLOCK_AT + clock.kind] = 1.0
    values = (
        0.4 * (np.log(np.minimum(clock.main, _MOST_MAIN) + 60.0) - 6.5),
        0.3 * (np.log(np.minimum(clock.period, _MOST_PERIOD) + 1.0) - 3.0),
        0.5 * (np.log(np.minimum(clock.periods, _MOST_COUNT) + 2.0) - 1.5),
        0.25 * (np.log(np.minimum(clock.moves, _MOST_COUNT) + 2.0) - 1.5),
    )
    out[:, :, 82:86] = np.stack(values, 1)[:, None]


def _standing(batch: pa.RecordBatch, side: str, source: Source) -> _Standing:
    text = batch[f"{side}_rank"]
    rating = to_numpy(pc.fill_null(batch[f"{side}_rating"], float("nan")))
    rated = ~np.isnan(rating)
    pro = to_numpy(pc.fill_null(batch[f"{side}_pro"], False))
    word = map_distinct(text, _rank_word, np.int64)
    # 30 kyu is 2 on the catalogue's scale, 1 kyu 31, 1 dan 32, 9 dan 40; fractions count down.
    inverse = np.where(pro, 1, 41 - np.floor(np.where(rated, rating, 41)).astype(np.int64))
    if source == "gogod":  # which writes 9d for professionals; kyu may be of a time when they were strong
        amateur = map_distinct(text, lambda t: t is not None and t.lower().endswith("ama"), np.bool_)
        inverse[rated & ~amateur & (rating >= 32)] = 1
        rated &= amateur | (rating >= 32)
        inverse[~rated] = 0
    inverse = np.where(word > 0, word, inverse)
    unranked = (word == _UNRANKED) | ((word == _NO_RANK) & (source == "kgs"))
    unknown = ~unranked & ~rated & (word <= 0)
    return _Standing(np.where(unranked | unknown, 0, inverse), unranked, unknown)


def _rank_word(text: str | None) -> int:
    """What a rank's own spelling says beyond what the catalogue reads: its inverse rank, or one of _NO_RANK .."""
    if text is None:
        return _NO_RANK
    if text == "-":
        return _UNRANKED
    if text.lower() in _TITLES:
        return 1
    dan = re.fullmatch(r"([1-9]\d?)a", text)
    return 10 - min(int(dan[1]), 9) if dan else _NO_WORD


def _clock(batch: pa.RecordBatch, source: Source) -> _Clock:
    if source in ("gogod", "go4go"):
        return _limited(np.full(len(batch), _UNKNOWN), np.zeros(len(batch)), np.zeros((len(batch), 3)))
    main = np.round(60.0 * to_numpy(pc.fill_null(batch["main_minutes"], float("nan"))).astype(np.float64), 1)
    told = map_distinct(batch["overtime"], _overtime, np.float64).reshape(-1, 4)
    tygems = map_distinct(batch["format"], lambda name: name == "tygem", np.bool_)
    if tygems.any():  # where 30/3 is no 30 moves in 3 seconds
        told = np.where(tygems[:, None], map_distinct(batch["overtime"], _tygem_overtime, np.float64), told)
    over = told[:, 0].astype(np.int64)
    no_time = to_numpy(batch["time_text"].is_null()) & np.isnan(main)
    kind = np.where(np.isnan(main), _UNKNOWN, over)
    kind[(over == _NONE) & (main > 0)] = _ABSOLUTE
    if source in ("ogs", "kgs"):  # which always tell a limit that there is
        kind[(over == _NONE) & no_time] = _NONE
    return _limited(kind, main, told[:, 1:])


def _limited(kind: npt.NDArray[np.int64], main: npt.NDArray[np.float64], told: npt.NDArray[np.float64]) -> _Clock:
    """Without times where there are none to tell. told: [G, 3] seconds of a period, periods, moves."""
    limited = kind > _NONE
    told = np.where(limited[:, None], told, 0.0)
    counts = told[:, 1:].astype(np.int64)
    return _Clock(kind, np.where(limited, main, 0.0), told[:, 0], counts[:, 0], counts[:, 1])


def _overtime(text: str | None) -> tuple[float, float, int, int]:
    """Kind, _NONE if there is no overtime, seconds of a period, periods, moves."""
    over = parse_overtime(text) if text is not None else None
    if over is None:
        return (_NONE if text is None or is_recognized("overtime", text) else _UNKNOWN), 0.0, 0, 0
    if over.count > _ABSURD_COUNT or over.seconds > _ABSURD_SECONDS:
        return _UNKNOWN, 0.0, 0, 0
    periods, moves = over.count * (over.kind == "byo-yomi"), over.count * (over.kind == "canadian")
    return _KINDS[over.kind], over.seconds_per_move, periods, moves


def _tygem_overtime(text: str | None) -> tuple[float, float, int, int]:
    return _overtime(text if text is None else tygem.parse_overtime(text) or text)


def _days(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """[G] days from 1 January 1970 to the game."""
    days = to_numpy(pc.fill_null(batch["date"].cast(pa.int32()).cast(pa.int64()), _NO_DAY))
    months = map_distinct(batch["date_text"], _first_of_month, np.int64)
    years = to_numpy(pc.fill_null(batch["year"].cast(pa.int64()), 1970))
    of_year = (years - 1970).astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)
    found: npt.NDArray[np.int64] = np.where(days != _NO_DAY, days, np.where(months != _NO_DAY, months, of_year))
    return found


def _first_of_month(text: str | None) -> int:
    """Days from 1970 to the first of the month of a date that is written like 1846-07, or 1846-07-00."""
    month = re.match(r"\D*(\d{4}-(?:0[1-9]|1[0-2]))(?!\d)", text or "", re.ASCII)
    return int(np.datetime64(month[1], "D").astype(np.int64)) if month else _NO_DAY
