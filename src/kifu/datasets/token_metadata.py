"""The metadata of a game as tokens: the fields of the prefix of `tokens@1`. Card: docs/formats/tokens.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kifu.corpus.schema import map_distinct, to_numpy
from kifu.point import MAX_SIZE
from kifu.records.meta import Rank

Codes = npt.NDArray[np.int64]

_RULES = {
    "jap": "japanese", "kor": "korean", "chi": "chinese", "aga": "aga", "bga": "aga", "french": "aga",
    "nz": "new zealand", "new zealand": "new zealand", "ing": "ing", "goe": "ing", "tromp": "tromp-taylor",
}  # fmt: skip
"""Beginnings of RU in lower case, and the rules that they name."""

_MARGINS = (2, 5, 10, 20, 40)
_MAX_KOMI = 10
_TOP_RATING = 49
_FIRST_YEAR, _LAST_YEAR = 1960, 2049

_UNKNOWN = "unknown"


def _board_codes(rows: pa.RecordBatch) -> Codes:
    width, height = (to_numpy(rows[name]).astype(np.int64) for name in ("width", "height"))
    return np.where((width == height) & (width > 0), width - 1, MAX_SIZE)


def _rules_codes(rows: pa.RecordBatch) -> Codes:
    values = METADATA["rules"].values

    def code(text: str | None) -> int:
        found = (text or "").strip().lower()
        named = (rules for start, rules in _RULES.items() if found.startswith(start))
        return values.index(next(named, "other") if found else _UNKNOWN)

    return map_distinct(rows["rules"], code, np.int64)


def _handicap_codes(rows: pa.RecordBatch) -> Codes:
    column = rows["handicap"]
    stones = to_numpy(pc.fill_null(column, 0)).astype(np.int64)
    return np.where(_known(column), np.where((stones >= 0) & (stones <= 9), stones, 10), 11)


def _komi_codes(rows: pa.RecordBatch) -> Codes:
    column = rows["komi"]
    halves = to_numpy(pc.fill_null(column, 0.0)).astype(np.float64) * 2
    usual = (np.abs(halves) <= 2 * _MAX_KOMI) & (halves == np.round(halves))
    code = np.where(usual, halves + 2 * _MAX_KOMI, 4 * _MAX_KOMI + 1)
    return np.where(_known(column), code, 4 * _MAX_KOMI + 2).astype(np.int64)


def _rank_codes(name: str) -> Callable[[pa.RecordBatch], Codes]:
    def codes(rows: pa.RecordBatch) -> Codes:
        rating = np.clip(to_numpy(pc.fill_null(rows[name], 0.0)), 0, _TOP_RATING).astype(np.int64)
        return np.where(rating >= 1, rating - 1, _TOP_RATING)

    return codes


def _year_codes(rows: pa.RecordBatch) -> Codes:
    column = rows["year"]
    year = np.clip(to_numpy(pc.fill_null(column, 0)).astype(np.int64), _FIRST_YEAR - 1, _LAST_YEAR + 1)
    code = year - (_FIRST_YEAR - 1)
    return np.where(_known(column), code, _LAST_YEAR - _FIRST_YEAR + 3)


def _result_codes(rows: pa.RecordBatch) -> Codes:
    values = METADATA["result"].values
    return map_distinct(rows["winner"], lambda winner: values.index(winner or _UNKNOWN), np.int64)


def _ending_codes(rows: pa.RecordBatch) -> Codes:
    values, column = METADATA["ending"].values, rows["margin"]
    codes = map_distinct(rows["ending"], lambda ending: values.index(ending or _UNKNOWN), np.int64)
    bins = np.searchsorted(_MARGINS, np.abs(to_numpy(pc.fill_null(column, 0.0))), side="left")
    score = values.index("score")
    return np.where((codes == score) & _known(column), score + 1 + bins, codes)


def _known(column: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


class MetadataField(NamedTuple):
    """A fact about a game that one token of its prefix states.

    Attributes:
        values: What the tokens stand for, in their order.
        columns: Columns of the catalogue that `codes` needs.
        codes: Returns the index in `values` for each row of the catalogue, [G] int64.
    """

    values: tuple[str, ...]
    columns: tuple[str, ...]
    codes: Callable[[pa.RecordBatch], Codes]


_RANKS = (*(str(Rank.from_rating(rating)) for rating in range(1, _TOP_RATING + 1)), _UNKNOWN)

METADATA = {
    "board": MetadataField(
        (*(f"{n}x{n}" for n in range(1, MAX_SIZE + 1)), "not square"), ("width", "height"), _board_codes
    ),
    "rules": MetadataField((*dict.fromkeys(_RULES.values()), "other", _UNKNOWN), ("rules",), _rules_codes),
    "handicap": MetadataField((*map(str, range(10)), "other", _UNKNOWN), ("handicap",), _handicap_codes),
    "komi": MetadataField(
        (*(f"{k / 2:g}" for k in range(-2 * _MAX_KOMI, 2 * _MAX_KOMI + 1)), "other", _UNKNOWN), ("komi",), _komi_codes
    ),
    "black_rank": MetadataField(_RANKS, ("black_rating",), _rank_codes("black_rating")),
    "white_rank": MetadataField(_RANKS, ("white_rating",), _rank_codes("white_rating")),
    "year": MetadataField(
        (f"before {_FIRST_YEAR}", *map(str, range(_FIRST_YEAR, _LAST_YEAR + 1)), f"after {_LAST_YEAR}", _UNKNOWN),
        ("year",),
        _year_codes,
    ),
    "result": MetadataField(("black", "white", "draw", _UNKNOWN), ("winner",), _result_codes),
    "ending": MetadataField(
        (
            "resign", "time", "forfeit", "void", _UNKNOWN,
            "score", *(f"score up to {margin}" for margin in _MARGINS), f"score over {_MARGINS[-1]}",
        ),
        ("ending", "margin"),
        _ending_codes,
    ),
}  # fmt: skip
"""The fields of a prefix by name, in their order. Released values never change."""

DEFAULT_METADATA = ("rules", "komi", "black_rank", "white_rank", "result")
