"""Write games as lines of OLF: text fields in Python, moves in a kernel."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel
from kifu.point import ERASE_BIT, POINT_MASK, WHITE_BIT
from kifu.records import olf
from kifu.records._bytes import SPACE, Int
from kifu.records.games import MAX_MOVES, NO_HANDICAP, Bytes, GameArrays
from kifu.records.olf import (
    BY_RESIGNATION,
    BY_TIME,
    HYPHEN,
    LOWER_A,
    MAX_NUMBER_LENGTH,
    NEWLINE,
    PASS_LETTER,
    UPPER_A,
    handicap_moves,
    parse_time,
    whole_seconds,
)

if TYPE_CHECKING:
    import pyarrow as pa


class ExportFailure(IntEnum):
    """The reason why a game cannot be written in a format without loss or change."""

    NONE = 0
    DROPPED = 1  # dropped by the parser of its record
    BOARD = 2  # not 1 to 19 points wide and high
    SETUP = 3  # not as many black stones as the handicap; or moves that look like a handicap's
    MOVES = 4  # one that is not a point of the board, territory included; or more than a parser accepts
    RESULT = 5  # void, unknown, forfeit, a winner without a margin, a margin of 0, 888.8, 999.9 or more
    TERMS = 6  # a handicap, date, rating, time or komi that its field cannot hold


_OK, _BAD_SETUP, _BAD_MOVES = int(ExportFailure.NONE), int(ExportFailure.SETUP), int(ExportFailure.MOVES)

_TEXT_COLUMNS = olf.PLAYED
"""The fields before the moves, which are formatted in Python."""

_ALL_BUT_WHITE = ERASE_BIT | POINT_MASK


@dataclass(frozen=True, slots=True)
class OlfFields:
    """The metadata of G games: columns of the catalogue, with the same names. Missing values are null.

    Attributes:
        date: [G] date32.
        year: [G] int16, used if there is no full date.
        black, white: [G] string.
        black_rating, white_rating, main_minutes, margin, komi: [G] float32.
        black_confirmed, white_confirmed: [G] bool.
        winner: [G] string: black, white, draw.
        ending: [G] string: score, resign, time, or another.
    """

    date: pa.Array
    year: pa.Array
    black: pa.Array
    black_rating: pa.Array
    black_confirmed: pa.Array
    white: pa.Array
    white_rating: pa.Array
    white_confirmed: pa.Array
    main_minutes: pa.Array
    winner: pa.Array
    ending: pa.Array
    margin: pa.Array
    komi: pa.Array


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


_Codes: TypeAlias = npt.NDArray[np.int64]


def write_olf(
    games: GameArrays, fields: OlfFields, territory: npt.NDArray[np.uint16], territory_offset: npt.NDArray[np.int64]
) -> OlfLines:
    """Return the games' lines.

    Parsing a line gives the same play, territory and metadata. Other games have no line, see `ExportFailure`.

    OLF has no field for PL, for the number of handicap stones in the root, for doubtful ratings, or for a handicap of 0
    or 1 as opposed to none: these are left out. White space, control characters and underscores in names become single
    spaces.

    Args:
        territory: [T] uint16, as in `ParsedBlock`.
        territory_offset: [G + 1] int64.
    """
    columns = [
        _format_column(_date_text, fields.date.view("int32"), fields.year),
        _format_column(_name_text, fields.black),
        _format_column(_rating_text, fields.black_rating, fields.black_confirmed),
        _format_column(_name_text, fields.white),
        _format_column(_rating_text, fields.white_rating, fields.white_confirmed),
        _format_column("{}:{}".format, games.width, games.height),
        _format_column(_time_text, fields.main_minutes),
        _format_column(_result_text, fields.winner, fields.ending, fields.margin),
        _format_column(lambda komi: "?" if komi is None else _number_text(komi), fields.komi),
        _format_column(
            lambda n: f"h-{0 if n == 1 else n}" if 0 <= n <= 9999 else None,  # the format has no h-1
            np.where(games.handicap == NO_HANDICAP, 0, games.handicap),
        ),
    ]
    texts = [text for spellings, _ in columns for text in spellings]
    first = np.cumsum([0, *(len(spellings) for spellings, _ in columns)])
    text_index = np.stack([codes + start for (_, codes), start in zip(columns, first)])
    sides = np.stack((games.width, games.height))
    unwritable = ((sides < 1) | (sides > olf.MAX_SIZE)).any(axis=0)
    missing = np.array([text is None for text in texts], bool)[text_index]
    failure = np.select(
        [games.drop != DropReason.KEPT, unwritable, missing[olf.RESULT]],
        [ExportFailure.DROPPED, ExportFailure.BOARD, ExportFailure.RESULT],
        np.where(missing.any(axis=0), ExportFailure.TERMS, ExportFailure.NONE),
    ).astype(np.uint8)
    encoded = [text or b"" for text in texts]
    source = _WriterInput(
        width=games.width, height=games.height, moves=games.moves, move_offset=games.move_offset, setup=games.setup,
        setup_ply=games.setup_ply, setup_offset=games.setup_offset, handicap=games.handicap, territory=territory,
        territory_offset=territory_offset, text=np.frombuffer(bytearray(b"".join(encoded)), np.uint8),
        text_offset=np.cumsum([0, *map(len, encoded)], dtype=np.int64), text_index=text_index,
    )  # fmt: skip
    offset = np.zeros(len(games) + 1, np.int64)
    _measure(source, np.zeros(olf.POINTS, np.int64), failure, offset[1:])
    np.cumsum(offset, out=offset)
    lines = np.empty(offset[-1], np.uint8)
    _fill(source, offset, lines)
    return OlfLines(lines, offset, failure)


def _format_column(function: Callable[..., str | None], *columns: Any) -> tuple[list[bytes | None], _Codes]:
    """Format each distinct combination of the columns' values."""
    values, codes = zip(*map(_distinct, columns))
    shape = [max(len(part), 1) for part in values]
    combinations, text_index = np.unique(np.ravel_multi_index(codes, shape), return_inverse=True)
    rows = zip(*([part[k] for k in at.tolist()] for part, at in zip(values, np.unravel_index(combinations, shape))))
    texts = [function(*row) for row in rows]
    return [None if text is None else text.encode("utf-8", "replace") for text in texts], text_index.astype(np.int64)


def _distinct(column: Any) -> tuple[list[Any], _Codes]:
    """Return the distinct values of a NumPy or Arrow array, and the index of each row's value."""
    if isinstance(column, np.ndarray):
        values, codes = np.unique(column, return_inverse=True)
        return values.tolist(), codes
    encoded = column.dictionary_encode("encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()


def _number_text(value: float, trim: Literal["-", "0"] = "-") -> str | None:
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


class _WriterInput(NamedTuple):
    """The kernels' input for G games.

    Attributes:
        width, height, moves, move_offset, setup, setup_ply, setup_offset, handicap: As in
            `kifu.records.games.GameArrays`.
        text: [N] uint8, D texts side by side.
        text_offset: [D + 1] int64.
        text_index: [_TEXT_COLUMNS, G] int64. The text of each field before the moves.
    """

    width: npt.NDArray[np.uint8]
    height: npt.NDArray[np.uint8]
    moves: npt.NDArray[np.uint16]
    move_offset: npt.NDArray[np.int64]
    setup: npt.NDArray[np.uint16]
    setup_ply: npt.NDArray[np.uint16]
    setup_offset: npt.NDArray[np.int64]
    handicap: npt.NDArray[np.int16]
    territory: npt.NDArray[np.uint16]
    territory_offset: npt.NDArray[np.int64]
    text: Bytes
    text_offset: npt.NDArray[np.int64]
    text_index: npt.NDArray[np.int64]


@inline_kernel
def _check_setup(source: _WriterInput, g: Int, points: Int, seen: npt.NDArray[np.int64]) -> Any:
    """Return whether parsing the line's moves would give exactly the game's setup."""
    begin, stop = source.move_offset[g], source.move_offset[g + 1]
    first, stones = source.setup_offset[g], source.setup_offset[g + 1] - source.setup_offset[g]
    handicap, stamp = np.int64(source.handicap[g]), g + 1
    if stones == 0:
        return handicap_moves(source.moves, begin, stop, handicap, points, seen, stamp) == 0
    if stones == 1 or stones != handicap:
        return False
    for k in range(first, first + stones):
        stone = np.int64(source.setup[k])
        if stone >= points or source.setup_ply[k] > 0 or seen[stone] == stamp:
            return False
        seen[stone] = stamp
    return True


@inline_kernel
def _handicap_length(source: _WriterInput, g: Int) -> Int:
    """Return the number of moves for handicap stones: each with White's pass, the last only if White moves next."""
    stones = source.setup_offset[g + 1] - source.setup_offset[g]
    first = source.move_offset[g]
    is_white_next = first < source.move_offset[g + 1] and source.moves[first] & WHITE_BIT > 0
    return 2 * stones - (0 if stones == 0 or is_white_next else 1)


@inline_kernel
def _check_moves(source: _WriterInput, g: Int, points: Int) -> Any:
    """Return whether moves are points or passes, territory consists of points, and a line can hold all moves."""
    begin, stop = source.move_offset[g], source.move_offset[g + 1]
    stones = source.setup_offset[g + 1] - source.setup_offset[g]
    if stop - begin + 2 * stones > MAX_MOVES:
        return False
    for k in range(begin, stop):
        if source.moves[k] & _ALL_BUT_WHITE > points:
            return False
    for k in range(source.territory_offset[g], source.territory_offset[g + 1]):
        if source.territory[k] & _ALL_BUT_WHITE >= points:
            return False
    return True


@kernel
def _measure(source: _WriterInput, seen: npt.NDArray[np.int64], failure: npt.NDArray[np.uint8], size: Any) -> None:
    """Compute the length of each game's line; 0 if `failure` is, or becomes, other than _OK.

    Args:
        seen: [POINTS] int64, initially zeros.
        failure: [G] uint8 of `ExportFailure`.
        size: [G] int64, filled.
    """
    for g in range(len(failure)):
        size[g] = 0
        if failure[g] != _OK:
            continue
        points = np.int64(source.width[g]) * np.int64(source.height[g])
        if not _check_moves(source, g, points):
            failure[g] = _BAD_MOVES
        elif not _check_setup(source, g, points, seen):
            failure[g] = _BAD_SETUP
        else:
            moves = source.move_offset[g + 1] - source.move_offset[g] + _handicap_length(source, g)
            area = source.territory_offset[g + 1] - source.territory_offset[g]
            length = _TEXT_COLUMNS + 1 + max(2 * moves, 1) + (1 + 2 * area if area > 0 else 0)
            for column in range(_TEXT_COLUMNS):
                text = source.text_index[column, g]
                length += source.text_offset[text + 1] - source.text_offset[text]
            size[g] = length


@inline_kernel
def _put_point(line: Bytes, at: Int, entry: Int, width: Int, points: Int) -> Int:
    """Write the two letters of a point and return the position after them."""
    point = np.int64(entry) & POINT_MASK
    base = LOWER_A if entry & WHITE_BIT else UPPER_A
    x = y = PASS_LETTER
    if point < points:
        y = point // width
        x = point - y * width
    line[at], line[at + 1] = base + x, base + y
    return at + 2


@kernel
def _fill(source: _WriterInput, offset: npt.NDArray[np.int64], lines: Bytes) -> None:
    """Write the games' lines to lines[offset[g]:offset[g + 1]], with the lengths of `_measure`."""
    for g in range(len(offset) - 1):
        at = offset[g]
        if at == offset[g + 1]:
            continue
        width = np.int64(source.width[g])
        points = width * np.int64(source.height[g])
        for column in range(_TEXT_COLUMNS):
            text = source.text_index[column, g]
            for k in range(source.text_offset[text], source.text_offset[text + 1]):
                lines[at] = source.text[k]
                at += 1
            lines[at] = SPACE
            at += 1
        begin = at
        for k in range(_handicap_length(source, g)):
            stone = np.int64(source.setup[source.setup_offset[g] + k // 2])
            at = _put_point(lines, at, stone if k % 2 == 0 else points | WHITE_BIT, width, points)
        for k in range(source.move_offset[g], source.move_offset[g + 1]):
            at = _put_point(lines, at, source.moves[k], width, points)
        if at == begin:
            lines[at] = HYPHEN
            at += 1
        if source.territory_offset[g] < source.territory_offset[g + 1]:
            lines[at] = SPACE
            at += 1
            for k in range(source.territory_offset[g], source.territory_offset[g + 1]):
                at = _put_point(lines, at, source.territory[k], width, points)
        lines[at] = NEWLINE
