"""Write games as lines of OLF."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.point import ERASE_BIT, POINT_MASK, WHITE_BIT
from kifu.records import olf as o
from kifu.records.games import MAX_MOVES, NO_HANDICAP, Bytes, GameArrays
from kifu.records.olf import BY_RESIGNATION, BY_TIME, MAX_NUMBER_LENGTH, parse_time, whole_seconds

if TYPE_CHECKING:
    import pyarrow as pa

OLF_COLUMNS = (
    "date", "year", "black", "black_rating", "black_confirmed", "white", "white_rating", "white_confirmed",
    "main_minutes", "winner", "ending", "margin", "komi",
)  # fmt: skip
"""The columns of the catalogue that a line holds, besides the play."""


class ExportFailure(IntEnum):
    """The reason why a game cannot be written in a format without loss or change."""

    NONE = 0
    DROPPED = 1  # dropped by the parser of its record
    BOARD = 2  # not 1 to 19 points wide and high
    SETUP = 3  # not as many black stones as the handicap; or moves that look like a handicap's
    MOVES = 4  # one that is not a point of the board, territory included; or more than a parser accepts
    RESULT = 5  # void, unknown, forfeit, a winner without a margin, a margin of 0, 888.8, 999.9 or more
    TERMS = 6  # a handicap, date, rating, time or komi that its field cannot hold


@dataclass(frozen=True, slots=True)
class OlfLines:
    """The lines of G games.

    Attributes:
        data: [N] uint8. The lines in UTF-8, each with its line end.
        offset: [G + 1] int64. The line of game g is data[offset[g]:offset[g + 1]]; empty if it cannot be written.
        failure: [G] uint8 of `ExportFailure`.
    """

    data: Bytes
    offset: npt.NDArray[np.int64]
    failure: npt.NDArray[np.uint8]


def write_olf(
    games: GameArrays,
    fields: Mapping[str, pa.Array] | pa.RecordBatch,
    territory: npt.NDArray[np.uint16],
    territory_offset: npt.NDArray[np.int64],
) -> OlfLines:
    """Return the games' lines.

    Parsing a line gives the same play, territory and metadata. Other games have no line, see `ExportFailure`.

    OLF has no field for PL, for the number of handicap stones in the root, for doubtful ratings, or for a handicap of 0
    or 1 as opposed to none: these are left out. White space, control characters and underscores in names become single
    spaces.

    Args:
        fields: [G] each, by `OLF_COLUMNS`, with the types of the catalogue. A year counts without a full date.
        territory: [T] uint16, as in `ParsedBlock`.
        territory_offset: [G + 1] int64.
    """
    columns = [
        _format_column(_date_text, fields["date"].view("int32"), fields["year"]),
        _format_column(_name_text, fields["black"]),
        _format_column(_rating_text, fields["black_rating"], fields["black_confirmed"]),
        _format_column(_name_text, fields["white"]),
        _format_column(_rating_text, fields["white_rating"], fields["white_confirmed"]),
        _format_column("{}:{}".format, games.width, games.height),
        _format_column(_time_text, fields["main_minutes"]),
        _format_column(_result_text, fields["winner"], fields["ending"], fields["margin"]),
        _format_column(lambda komi: "?" if komi is None else _number_text(komi), fields["komi"]),
        _format_column(_handicap_text, np.where(games.handicap == NO_HANDICAP, 0, games.handicap)),
    ]
    lines, failure = [], np.zeros(len(games), np.uint8)
    for g, texts in enumerate(zip(*columns)):
        area = territory[territory_offset[g] : territory_offset[g + 1]]
        failure[g] = _failure(games, g, texts, area)
        lines.append(b"" if failure[g] else b" ".join([*filter(None, texts), *_play(games, g, area)]) + b"\n")
    offset = np.cumsum([0, *map(len, lines)], dtype=np.int64)
    return OlfLines(np.frombuffer(bytearray(b"".join(lines)), np.uint8), offset, failure)


def _format_column(function: Callable[..., str | None], *columns: Any) -> list[bytes | None]:
    """Return the text of each row; each distinct combination of the columns' values is formatted once."""
    rows = list(zip(*(column.tolist() for column in columns)))
    texts = {row: function(*row) for row in set(rows)}
    encoded = {row: None if text is None else text.encode("utf-8", "replace") for row, text in texts.items()}
    return [encoded[row] for row in rows]


def _number_text(value: float, trim: Literal["-", "0"] = "-") -> str | None:
    """Return the shortest decimal that reads as the same float32."""
    text = np.format_float_positional(np.float32(value) + 0.0, trim=trim)
    return text if np.isfinite(value) and len(text) <= MAX_NUMBER_LENGTH else None


def _date_text(days: int | None, year: int | None) -> str | None:
    """Return the date field. days: since 1970-01-01."""
    if days is None and year is None:
        return "0000-00-00"
    text = f"{year:04}-00-00" if days is None else str(np.datetime64(days, "D"))
    return text if re.fullmatch(r"(?!0000)\d{4}-\d\d-\d\d", text) else None


def _name_text(name: str | None) -> str:
    return "_".join(re.findall(r"[^\s_\x00-\x1f\x7f-\x9f]+", name or "")) or "?"


def _rating_text(rating: float | None, confirmed: bool | None) -> str | None:
    if rating is None:
        return "0"
    text = _number_text(rating, "0" if confirmed else "-")
    return text if text and rating > 0 and (confirmed or "." not in text) else None


_MAX_MINUTES = 1e6


def _time_text(minutes: float | None) -> str | None:
    if minutes is None:
        return "?"
    if not 0 <= minutes <= _MAX_MINUTES:
        return _number_text(minutes) if minutes >= 0 else None
    text = whole_seconds(minutes)
    return text if np.float32(parse_time(text)) == np.float32(minutes) else _number_text(minutes)


def _result_text(winner: str | None, ending: str | None, margin: float | None) -> str | None:
    if winner == "draw" and ending == "score":
        return "0"
    if winner not in ("black", "white"):
        return None
    sign = "" if winner == "black" else "-"
    if ending != "score":
        value = {"time": BY_TIME, "resign": BY_RESIGNATION}.get(ending or "")
        return value and sign + value
    if margin is None or not 0 < margin < float(BY_RESIGNATION):
        return None
    text = _number_text(margin)
    return None if text in (None, BY_TIME, BY_RESIGNATION) else f"{sign}{text}"


def _handicap_text(stones: int) -> str | None:
    stones = 0 if stones == 1 else stones  # the format has no h-1
    return f"h-{stones}" if 0 <= stones <= 9999 else None


_ALL_BUT_WHITE = ERASE_BIT | POINT_MASK
_Points = npt.NDArray[np.uint16]


def _parts(games: GameArrays, g: int) -> tuple[_Points, _Points, int]:
    """Return moves and setup of a game, and the number of points of its board."""
    moves = games.moves[games.move_offset[g] : games.move_offset[g + 1]]
    setup = games.setup[games.setup_offset[g] : games.setup_offset[g + 1]]
    return moves, setup, int(games.width[g]) * int(games.height[g])


def _failure(games: GameArrays, g: int, texts: Sequence[bytes | None], area: _Points) -> ExportFailure:
    moves, setup, points = _parts(games, g)
    if games.drop[g] != DropReason.KEPT:
        return ExportFailure.DROPPED
    if not (1 <= games.width[g] <= o.MAX_SIZE and 1 <= games.height[g] <= o.MAX_SIZE):
        return ExportFailure.BOARD
    if None in texts:
        return ExportFailure.RESULT if texts[o.RESULT] is None else ExportFailure.TERMS
    if len(moves) + 2 * len(setup) > MAX_MOVES or (moves & _ALL_BUT_WHITE > points).any():
        return ExportFailure.MOVES
    if (area & _ALL_BUT_WHITE >= points).any():
        return ExportFailure.MOVES
    stones, plies = int(games.handicap[g]), games.setup_ply[games.setup_offset[g] : games.setup_offset[g + 1]]
    if not len(setup):  # the moves must not look like a handicap
        placed, passes = moves[: 2 * stones - 1 : 2], moves[1 : 2 * stones - 1 : 2]
        is_handicap = stones >= 2 and 2 * stones - 1 <= len(moves) and (passes == points | WHITE_BIT).all()
        return ExportFailure.SETUP if is_handicap and _are_stones(placed, points) else ExportFailure.NONE
    good = len(setup) == stones > 1 and _are_stones(setup, points) and not plies.any()
    return ExportFailure.NONE if good else ExportFailure.SETUP


def _are_stones(stones: _Points, points: int) -> bool:
    """Return whether all are black stones, each on a different point."""
    return bool((stones < points).all()) and len(np.unique(stones)) == len(stones)


def _play(games: GameArrays, g: int, area: _Points) -> list[bytes]:
    """Return the fields of moves, with White's passes between handicap stones, and of territory."""
    moves, setup, points = _parts(games, g)
    if len(setup):
        is_white_next = len(moves) and moves[0] & WHITE_BIT
        stones = np.stack([setup, np.full_like(setup, points | WHITE_BIT)], 1).ravel()
        moves = np.append(stones if is_white_next else stones[:-1], moves)
    texts = [_letters(entries, int(games.width[g]), points) for entries in (moves, area)]
    return [texts[0] or b"-", *filter(None, texts[1:])]


def _letters(entries: _Points, width: int, points: int) -> bytes:
    """Return two letters for each point: capitals are Black's."""
    point = entries & POINT_MASK
    x, y = np.where(point < points, np.divmod(point, width)[::-1], o.PASS_LETTER)
    base = np.where(entries & WHITE_BIT, o.LOWER_A, o.UPPER_A)
    return np.stack([base + x, base + y], 1).astype(np.uint8).tobytes()
