"""OLF, the one-line format of Schraudolph's archive: parse many lines at once into flat arrays.

docs/formats/olf.md describes the format: its fields, and the decisions where its own description is silent. The writer
is `kifu.records.olf_writer`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel
from kifu.point import BLACK, NO_POINT, POINT_MASK, WHITE, WHITE_BIT
from kifu.records import _bytes as raw
from kifu.records._bytes import Int, byte
from kifu.records.detect import OLF
from kifu.records.games import (
    FIELDS,
    MAX_MOVES,
    Bytes,
    ParsedBlock,
    ParseWarning,
    RecordBlock,
    RecordFormat,
    TextFields,
)
from kifu.records.meta import Result, komi_text
from kifu.records.ranks import Rank

MAX_SIZE = 19
"""The letters a to s are coordinates; t is the pass."""

POINTS = MAX_SIZE * MAX_SIZE

# The fields of a line, in order.
(
    DATE, BLACK_NAME, BLACK_RATING, WHITE_NAME, WHITE_RATING, SIZE, TIME, RESULT, KOMI, STONES, PLAYED, TERRITORY,
    LINE_FIELDS,
) = range(13)  # fmt: skip

# Columns of a row after those of `line_rows`.
TERRITORY_END, COLUMNS = raw.LINE_COLUMNS, raw.LINE_COLUMNS + 1

# The parser's state: the number of the row, from 1, and of entries of each array.
GAME, MOVES, SETUP, AREA, STATES = range(5)

_TEXT_FIELDS = np.array(
    [
        (field, FIELDS.index(name))
        for field, name in (
            (DATE, "date"),
            (BLACK_NAME, "black"),
            (BLACK_RATING, "black_rank"),
            (WHITE_NAME, "white"),
            (WHITE_RATING, "white_rank"),
            (TIME, "time"),
            (RESULT, "result"),
            (KOMI, "komi"),
        )
    ]
)

NEWLINE, HYPHEN = ord("\n"), ord("-")
UPPER_A, LOWER_A = ord("A"), ord("a")
PASS_LETTER = 19
"""The t of TT and tt."""

_QUESTION, _ZERO, _LOWER_H = (ord(c) for c in "?0h")
_LOWER_BIT = 0x20
_NO_LETTER = 255

_COORDINATE = np.full(256, _NO_LETTER, np.uint8)
_COORDINATE[UPPER_A : UPPER_A + 26] = _COORDINATE[LOWER_A : LOWER_A + 26] = np.arange(26)

_KEPT, _BAD_SIZE = int(DropReason.KEPT), int(DropReason.BAD_SIZE)
_TOO_LARGE, _UNREADABLE, _OFF_BOARD = int(DropReason.TOO_LARGE), int(DropReason.UNREADABLE), int(DropReason.OFF_BOARD)
_HANDICAP_TEXT, _HANDICAP_ONE = int(ParseWarning.HANDICAP_TEXT), int(ParseWarning.HANDICAP_ONE)


class OlfOut(NamedTuple):
    """The parser's output and scratch space.

    Attributes:
        rows: [G, COLUMNS] int64, from `line_rows`.
        field_start, field_stop: [len(FIELDS), G] int64, initially zeros.
        moves, setup, territory: uint16; each entry takes at least two bytes of text.
        state: [STATES] int64, initially zeros.
        fields: [LINE_FIELDS, 2] int64, start and end of the line's fields.
        seen, area: [POINTS] int64, initially zeros. The last row with a handicap stone on the point; for territory, the
            row times 2, plus 1 if it is White's.
    """

    rows: npt.NDArray[np.int64]
    field_start: npt.NDArray[np.int64]
    field_stop: npt.NDArray[np.int64]
    moves: npt.NDArray[np.uint16]
    setup: npt.NDArray[np.uint16]
    territory: npt.NDArray[np.uint16]
    state: npt.NDArray[np.int64]
    fields: npt.NDArray[np.int64]
    seen: npt.NDArray[np.int64]
    area: npt.NDArray[np.int64]


@inline_kernel
def find_fields(data: Bytes, i: Int, stop: Int, fields: npt.NDArray[np.int64]) -> Int:
    """Split the line at `i` into fields and return their number. The first LINE_FIELDS are stored."""
    count = 0
    while i < stop:
        begin = i
        while i < stop and data[i] > raw.SPACE:
            i += 1
        if count < LINE_FIELDS:
            fields[count, 0], fields[count, 1] = begin, i
        count += 1
        i = raw.skip_space(data, i, stop)
    return count


@inline_kernel
def is_missing(data: Bytes, i: Int, stop: Int, field: Int) -> Any:
    """Return whether the field is one of OLF's placeholders for a missing value: ?, the rating 0, a date of zeros."""
    if field == DATE:
        for k in range(i, stop):
            if data[k] != _ZERO and data[k] != HYPHEN:
                return stop - i == 1 and data[i] == _QUESTION
        return True
    if stop - i != 1:
        return False
    return data[i] == _QUESTION or (field in (BLACK_RATING, WHITE_RATING) and data[i] == _ZERO)


@inline_kernel
def read_size_and_handicap(data: Bytes, fields: npt.NDArray[np.int64], row: npt.NDArray[np.int64]) -> None:
    """Read board size and handicap."""
    i, stop = fields[SIZE, 0], fields[SIZE, 1]
    colon = i
    while colon < stop and data[colon] != raw.COLON:
        colon += 1
    left, width = raw.read_number(data, i, colon)
    right, height = raw.read_number(data, min(colon + 1, stop), stop)
    if left and right and 1 <= width <= MAX_SIZE and 1 <= height <= MAX_SIZE:
        row[raw.WIDTH], row[raw.HEIGHT] = width, height
    else:
        row[raw.DROP] = _BAD_SIZE
    i, stop = fields[STONES, 0], fields[STONES, 1]
    good, value = raw.read_number(data, min(i + 2, stop), stop)
    if not good or value < 0 or data[i] != _LOWER_H or data[i + 1] != HYPHEN:
        row[raw.WARNINGS] |= _HANDICAP_TEXT
    elif value > 0:
        row[raw.HANDICAP] = value
        if value == 1:
            row[raw.WARNINGS] |= _HANDICAP_ONE


@inline_kernel
def read_points(
    data: Bytes, i: Int, stop: Int, width: Int, height: Int, points: npt.NDArray[np.uint16], at: Int
) -> Int:
    """Read pairs of letters into points[at:] and return their number; -1 if they are not pairs of letters."""
    if (stop - i) % 2 == 1:
        return -1
    for k in range(i, stop, 2):
        first, second = byte(data, k), byte(data, k + 1)
        x, y = np.int64(_COORDINATE[first]), np.int64(_COORDINATE[second])
        if x == _NO_LETTER or y == _NO_LETTER:
            return -1
        point = NO_POINT
        if (first ^ second) & _LOWER_BIT == 0:
            if x < width and y < height:
                point = y * width + x
            elif x == PASS_LETTER and y == PASS_LETTER:
                point = width * height
        points[at] = point | WHITE_BIT if first & _LOWER_BIT else point
        at += 1
    return (stop - i) // 2


@inline_kernel
def handicap_moves(
    moves: npt.NDArray[np.uint16],
    at: Int,
    stop: Int,
    stones: Int,
    points: Int,
    seen: npt.NDArray[np.int64],
    stamp: Int,
) -> Int:
    """Return how many of moves[at:stop] place the handicap; 0 if they do not begin with it.

    A handicap is `stones` black stones, each on a different point, with white passes between them, and one more pass if
    White moves after it.
    """
    count = 2 * stones - 1
    if stones < 2 or count > stop - at:
        return 0
    for k in range(count):
        move = np.int64(moves[at + k])
        if k % 2 == 1:
            if move != points | WHITE_BIT:
                return 0
        elif move >= points or seen[move] == stamp:
            return 0
        else:
            seen[move] = stamp
    at += count
    return count + (1 if at + 1 < stop and moves[at] == points | WHITE_BIT and moves[at + 1] & WHITE_BIT else 0)


@inline_kernel
def read_area(data: Bytes, i: Int, stop: Int, row: npt.NDArray[np.int64], out: OlfOut) -> Int:
    """Read the territory, sort it by point and return its size. The last entry of a repeated point wins."""
    points = row[raw.WIDTH] * row[raw.HEIGHT]
    at, stamp = out.state[AREA], out.state[GAME]
    count = read_points(data, i, stop, row[raw.WIDTH], row[raw.HEIGHT], out.territory, at)
    if count < 0:
        row[raw.DROP] = _UNREADABLE
        return 0
    for k in range(at, at + count):
        entry = np.int64(out.territory[k])
        point = entry & POINT_MASK
        if point >= points:
            row[raw.DROP] = _OFF_BOARD
            return 0
        out.area[point] = 2 * stamp + (1 if entry & WHITE_BIT else 0)
    count = 0
    for p in range(points):
        if out.area[p] // 2 == stamp:
            out.territory[at + count] = p | WHITE_BIT if out.area[p] % 2 == 1 else p
            count += 1
    return count


@inline_kernel
def read_play(data: Bytes, fields: npt.NDArray[np.int64], count: Int, row: npt.NDArray[np.int64], out: OlfOut) -> None:
    """Read the moves, with handicap stones among them, and the territory."""
    state = out.state
    i, stop = fields[PLAYED, 0], fields[PLAYED, 1]
    if (stop - i) // 2 > MAX_MOVES:
        row[raw.DROP] = _TOO_LARGE
        return
    begin, moves = state[MOVES], 0
    if stop - i != 1 or data[i] != HYPHEN:
        moves = read_points(data, i, stop, row[raw.WIDTH], row[raw.HEIGHT], out.moves, begin)
    area = 0
    if count > TERRITORY:
        area = read_area(data, fields[TERRITORY, 0], fields[TERRITORY, 1], row, out)
    if moves < 0:
        row[raw.DROP] = _UNREADABLE
    if row[raw.DROP] != _KEPT:
        return
    points = row[raw.WIDTH] * row[raw.HEIGHT]
    taken = handicap_moves(out.moves, begin, begin + moves, row[raw.HANDICAP], points, out.seen, state[GAME])
    if taken > 0:
        for k in range(row[raw.HANDICAP]):
            out.setup[state[SETUP] + k] = out.moves[begin + 2 * k]
        for k in range(begin, begin + moves - taken):
            out.moves[k] = out.moves[k + taken]
        row[raw.ROOT_SETUP] = row[raw.HANDICAP]
        state[SETUP] += row[raw.HANDICAP]
    state[MOVES] += moves - taken
    state[AREA] += area


@inline_kernel
def read_line(data: Bytes, game: Int, out: OlfOut) -> None:
    """Read the game of a row."""
    fields, row = out.fields, out.rows[game]
    count = find_fields(data, row[raw.START], row[raw.STOP], fields)
    if count == LINE_FIELDS - 1 or count == LINE_FIELDS:
        for k in range(len(_TEXT_FIELDS)):
            field, f = _TEXT_FIELDS[k, 0], _TEXT_FIELDS[k, 1]
            if not is_missing(data, fields[field, 0], fields[field, 1], field):
                out.field_start[f, game], out.field_stop[f, game] = fields[field, 0], fields[field, 1]
        read_size_and_handicap(data, fields, row)
        if row[raw.DROP] == _KEPT:
            read_play(data, fields, count, row, out)
    else:
        row[raw.DROP] = _UNREADABLE


@kernel
def read_lines(data: Bytes, out: OlfOut) -> None:
    """Read the line of each row."""
    state = out.state
    for game in range(len(out.rows)):
        row = out.rows[game]
        state[GAME] = game + 1
        if row[raw.DROP] == _KEPT:
            read_line(data, game, out)
        row[raw.MOVE_END], row[raw.SETUP_END], row[TERRITORY_END] = state[MOVES], state[SETUP], state[AREA]


def read_olf(block: RecordBlock) -> ParsedBlock:
    """Read every line of a block's members as a game. Never fails: unreadable lines give rows with their `DropReason`.

    Each member gives at least one row; blank lines and comments (#) give none. `GameArrays.start` and `stop` enclose
    the line without surrounding white space. Handicap stones are setup of the root, see `GameArrays`. Text fields are
    as the line spells them, see `parse_rating` and the like; OLF's placeholders for missing values (?, the rating 0, a
    date of zeros) count as missing.

    Time is linear in the bytes; memory is bounded by a few times the bytes: a line of more than 1 MiB or 65,535 moves
    is `DropReason.TOO_LARGE`, and so is the rest of a member that contains lines too densely.
    """
    length = int(np.sum(block.stop - block.start))
    rows = raw.line_rows(block, np.ones(len(block), np.bool_), COLUMNS)
    out = OlfOut(
        rows=rows, field_start=np.zeros((len(FIELDS), len(rows)), np.int64),
        field_stop=np.zeros((len(FIELDS), len(rows)), np.int64), moves=np.empty(length // 2 + 1, np.uint16),
        setup=np.empty(length // 2 + 1, np.uint16), territory=np.empty(length // 2 + 1, np.uint16),
        state=np.zeros(STATES, np.int64), fields=np.zeros((LINE_FIELDS, 2), np.int64), seen=np.zeros(POINTS, np.int64),
        area=np.zeros(POINTS, np.int64),
    )  # fmt: skip
    read_lines(block.data, out)
    return ParsedBlock(
        format="olf",
        block=block,
        games=raw.to_game_arrays(block, rows, out.moves, out.setup, np.zeros(len(out.setup), np.uint16)),
        text_fields=TextFields(block.data, out.field_start, out.field_stop),
        index=rows[:, raw.LINE].astype(np.int32),
        territory=out.territory[: out.state[AREA]].copy(),
        territory_offset=np.append(0, rows[:, TERRITORY_END]),
    )


# Parsers of the fields. Each returns None, or an unknown Result, for text without a known meaning.

_NUMBER = re.compile(r"[+-]?(\d++\.?\d*+|\.\d++)")
MAX_NUMBER_LENGTH = 20  # characters of a number

BY_TIME, BY_RESIGNATION = "888.8", "999.9"


def _parse_number(text: str) -> float | None:
    return float(text) if len(text) <= MAX_NUMBER_LENGTH and text.isascii() and _NUMBER.fullmatch(text) else None


def parse_name(text: str) -> str:
    """Return a player's name, in which each _ stands for a space."""
    return text.replace("_", " ")


def parse_rating(text: str) -> tuple[float | None, bool | None]:
    """Parse a rating.

    Returns:
        (rating on the archive's scale, True if it is confirmed, else None). "35.0" is confirmed, "35" is not. (None,
        None) for 0 and below, which is no rating.
    """
    rating = _parse_number(text)
    if rating is None or rating <= 0:
        return None, None
    return rating, True if "." in text else None


def parse_result(text: str) -> Result:
    """Parse points, positive if Black won, with 888.8 for a win on time and 999.9 for a resignation; 0 is a draw."""
    value = _parse_number(text)
    if value is None or abs(value) > float(BY_RESIGNATION):
        return Result()
    if value == 0:
        return Result.parse("0")
    winner = BLACK if value > 0 else WHITE
    if abs(value) == float(BY_TIME):
        return Result(winner, "time")
    if abs(value) == float(BY_RESIGNATION):
        return Result(winner, "resign")
    return Result(winner, "score", abs(value))


def parse_komi(text: str) -> float | None:
    """Parse the points for White. Taken as they are, unlike those of an SGF record."""
    return _parse_number(text)


def parse_time(text: str) -> float | None:
    """Parse the main time in minutes; 0 is none. "23.333333" is 1,400 s."""
    minutes = _parse_number(text)
    if minutes is None or minutes < 0:
        return None
    return round(60 * minutes) / 60 if text == whole_seconds(minutes) else minutes


def whole_seconds(minutes: float) -> str:
    """Return the nearest number of whole seconds in minutes, with at most six decimals."""
    return f"{round(60 * minutes) / 60:.6f}".rstrip("0").rstrip(".")


def parse_date(text: str) -> str | None:
    """Return the date as in SGF: "1996-03-12", or "1996-03" or "1996" if the rest is zeros.

    Any other text is returned as it is; None for a date without a year.
    """
    match = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text)
    if match is None:
        return text or None
    year, month, day = match.groups()
    if year == "0000":
        return None
    if month == "00":
        return year
    return f"{year}-{month}" if day == "00" else text


def to_sgf_properties(texts: Mapping[str, str]) -> dict[str, str | None]:
    """Return decoded text fields as root properties of SGF, in its spelling."""
    result, komi, minutes = parse_result(texts["result"]), parse_komi(texts["komi"]), parse_time(texts["time"])
    return {
        "PB": parse_name(texts["black"]) or None,
        "BR": _rank_text(texts["black_rank"]),
        "PW": parse_name(texts["white"]) or None,
        "WR": _rank_text(texts["white_rank"]),
        "RE": None if result == Result() else str(result),
        "KM": None if komi is None else komi_text(komi),
        "DT": parse_date(texts["date"]),
        "TM": None if minutes is None else f"{minutes * 60:.12g}",
    }


def _rank_text(text: str) -> str | None:
    rating, confirmed = parse_rating(text)
    rank = None if rating is None else Rank.from_rating(rating, confirmed)
    return None if rank is None else str(rank)


FORMAT = RecordFormat((OLF,), read_olf, to_sgf_properties)
