"""Games of the Online Go Server (OGS) as JSON: one object, one wrapped by the server's API, or one a line.

    {"players": {"black": {"username": "b", "rank": 28.1}, ..}, "komi": 6.5, "moves": [[15, 3, 2280], ..], ..}

Compiled code locates the moves, by far the largest part of an object, and reads them into flat arrays. orjson parses
the rest, of which the text fields are made. docs/formats/ogs.md describes the format. Sources: online-go/goban
(GobanEngine.ts, move_encoding.ts), online-go/online-go.com (rank_utils.ts).
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from kifu.arrays import Indices
from kifu.errors import DropReason
from kifu.kernel import inline_kernel, kernel
from kifu.point import BLACK, ERASE_BIT, MAX_SIZE, NO_POINT, WHITE, WHITE_BIT
from kifu.records import _bytes as raw
from kifu.records._bytes import Int
from kifu.records._json import (
    CLOSE_BRACE,
    COMMA,
    DEEPEST,
    OPEN_BRACE,
    PLAIN,
    QUOTE,
    TRUE,
    end_of_brackets,
    end_of_string,
    read_json_number,
    read_string,
    read_value,
    skip_json_space,
)
from kifu.records.decode import decode, translate_fox
from kifu.records.detect import OGS, OGS_LINES, detect
from kifu.records.games import (
    FIELD_LIMIT,
    MAX_MOVES,
    NO_HANDICAP,
    TO_PLAY_UNSET,
    Bytes,
    GameArrays,
    ParsedBlock,
    ParseWarning,
    RecordBlock,
    RecordFormat,
    concat,
    text_fields,
)
from kifu.records.meta import result_text
from kifu.records.sgf import as_block, read_block

NOTHING, ARRAY, LETTERS = range(3)
"""Kinds of moves: none, [[15, 3, 2280], {"x": 3, "y": 15}, ..] in the data, or "pddp" in the text."""

# Columns of a row after those of `line_rows`: the arrays of moves in the object itself and in its "gamedata", 0 if
# absent; then the input of `read_moves`, and its count of moves.
OUTER_START, OUTER_STOP, INNER_START, INNER_STOP = range(raw.LINE_COLUMNS, raw.LINE_COLUMNS + 4)
KIND, BEGIN, END, TURN, FREE, BLACK_STONES, WHITE_STONES, STONES_END, PLAYED, COLUMNS = range(
    INNER_STOP + 1, INNER_STOP + 11
)
_INPUTS = (raw.WIDTH, raw.HEIGHT, raw.TO_PLAY, raw.HANDICAP, raw.WARNINGS, raw.DROP, *range(KIND, PLAYED))

_BANG, _DOT, _ZERO, _LOWER, _A = ord("!"), ord("."), 48, 0x20, ord("a")
_X, _Y, _TIMEDELTA, _COLOR, _EDITED_KEY = ord("x"), ord("y"), tuple(b"timedelta"), tuple(b"color"), tuple(b"edited")
_MOVES, _GAMEDATA_KEY, _UNDEFINED = tuple(b"moves"), tuple(b"gamedata"), tuple(b"!undefined")

_EDITED = 3  # an edit that removes a stone; 1 and 2 are the colours of edited stones
_LONGEST = 1e15  # milliseconds, of a move

_PASS_AS_TT, _TRUNCATED = int(ParseWarning.PASS_AS_TT), int(ParseWarning.TRUNCATED)
_BAD_SETUP, _SETUP_TWICE = int(ParseWarning.BAD_SETUP_POINT), int(ParseWarning.SETUP_TWICE)
_KEPT, _TOO_LARGE, _UNREADABLE = int(DropReason.KEPT), int(DropReason.TOO_LARGE), int(DropReason.UNREADABLE)


class MovesOut(NamedTuple):
    """The output of `read_moves`, and its memory.

    Attributes:
        moves: [M] uint16.
        seconds: [M] float32.
        setup, setup_ply: [S] uint16.
        seen: [MAX_POINTS] int64, zeros. The last game that set up each point, times 4, plus its colour.
        stack: [DEEPEST] int64. The bracket of each open array or object.
    """

    moves: npt.NDArray[np.uint16]
    seconds: npt.NDArray[np.float32]
    setup: npt.NDArray[np.uint16]
    setup_ply: npt.NDArray[np.uint16]
    seen: npt.NDArray[np.int64]
    stack: npt.NDArray[np.int64]


@inline_kernel
def _find_moves(data: Bytes, i: Int, stop: Int, row: Indices) -> None:
    """Locate the value of "moves" in the object at `i`, or in its "gamedata", if it is an array."""
    depth, in_gamedata = 0, False
    while i < stop:
        c = data[i]
        if PLAIN[c]:
            i += 1
            continue
        if c == QUOTE:
            begin = i + 1
            i = end_of_string(data, begin, stop)
            if depth == 1 or (depth == 2 and in_gamedata):
                after = raw.skip_space(data, i, stop)
                if after < stop and data[after] == raw.COLON:
                    value = raw.skip_space(data, after + 1, stop)
                    length = i - 1 - begin
                    if depth == 1 and length == len(_GAMEDATA_KEY) and raw.is_text(data, begin, stop, _GAMEDATA_KEY):
                        in_gamedata = value < stop and data[value] == OPEN_BRACE
                        row[INNER_START] = row[INNER_STOP] = 0
                    elif length == len(_MOVES) and raw.is_text(data, begin, stop, _MOVES):
                        at = OUTER_START if depth == 1 else INNER_START
                        row[at] = row[at + 1] = 0
                        if value < stop and data[value] == raw.LEFT:
                            row[at] = value
                            value = end_of_brackets(data, value, stop)
                            if value < 0:
                                row[raw.DROP] = _UNREADABLE
                                return
                            row[at + 1] = value
                    i = value
            continue
        i += 1
        if c in (raw.LEFT, OPEN_BRACE):
            depth += 1
            if depth > DEEPEST:
                row[raw.DROP] = _UNREADABLE
                return
        elif c in (raw.RIGHT, CLOSE_BRACE):
            depth -= 1
            if depth == 1:
                in_gamedata = False


@kernel
def find_moves(data: Bytes, rows: npt.NDArray[np.int64]) -> None:
    """Locate the arrays of moves of each object. rows: [G, COLUMNS] int64, from `line_rows`."""
    for row in rows:
        if row[raw.DROP] == _KEPT:
            _find_moves(data, row[raw.START], row[raw.STOP], row)


@inline_kernel
def _play(point: Int, colour: Int, seconds: float, row: Indices, out: MovesOut) -> None:
    """Append a move. Colour 0 is that of the player to move; an edit, with another one, does not change the turn.

    While Black places handicap stones, the turn does not change either, and passes are skipped, which old games have
    in place of White's moves.
    """
    left = row[FREE] - row[PLAYED]
    if colour == 0 and left > 0 and point == row[raw.WIDTH] * row[raw.HEIGHT]:
        return
    if row[raw.MOVE_END] - row[BEGIN] == MAX_MOVES:
        row[raw.DROP] = _TOO_LARGE
        return
    white = (colour if colour else row[TURN]) == WHITE
    out.moves[row[raw.MOVE_END]] = point | WHITE_BIT if white else point
    out.seconds[row[raw.MOVE_END]] = seconds
    row[raw.MOVE_END] += 1
    if colour == 0:
        row[PLAYED] += 1
        if left < 2:
            row[TURN] = BLACK + WHITE - row[TURN]


@inline_kernel
def _set_up(point: Int, bits: Int, ply: Int, row: Indices, out: MovesOut) -> None:
    if row[raw.SETUP_END] - row[raw.ROOT_SETUP] == raw.MAX_SETUP:
        row[raw.DROP] = _TOO_LARGE
        return
    out.setup[row[raw.SETUP_END]] = point | bits
    out.setup_ply[row[raw.SETUP_END]] = ply
    row[raw.SETUP_END] += 1


@inline_kernel
def _point(x: float, y: float, row: Indices) -> Int:
    """Return the point or pass (-1, -1) of coordinates, or NO_POINT."""
    if x == -1 and y == -1:
        return row[raw.WIDTH] * row[raw.HEIGHT]
    if 0 <= x < row[raw.WIDTH] and 0 <= y < row[raw.HEIGHT] and x == np.floor(x) and y == np.floor(y):
        return np.int64(y) * row[raw.WIDTH] + np.int64(x)
    return NO_POINT


@inline_kernel
def _read_number(data: Bytes, i: Int, stop: Int) -> tuple[Int, float]:
    """Read a number, which may be text, as `read_json_number` does."""
    if i >= stop or data[i] != QUOTE:
        return read_json_number(data, i, stop)
    i, number = read_json_number(data, skip_json_space(data, i + 1, stop), stop)
    i = -1 if i < 0 else skip_json_space(data, i, stop)
    return i + 1 if 0 <= i < stop and data[i] == QUOTE else -1, number


@inline_kernel
def _read_number_or_skip(data: Bytes, i: Int, stop: Int, out: MovesOut) -> tuple[Int, float]:
    """Read any value: (position after it, its number or NaN)."""
    if i < stop and (data[i] == raw.HYPHEN or data[i] == QUOTE or raw.is_digit(data[i])):
        after, number = _read_number(data, i, stop)
        if after >= 0:
            return after, number
    return read_value(data, i, stop, out.stack), np.nan


@inline_kernel
def _read_move_object(data: Bytes, i: Int, stop: Int, row: Indices, out: MovesOut) -> Int:
    """Read {"x": 15, "y": 3, "timedelta": 2280, "color": 1, "edited": false}; only x and y are required."""
    x = y = milliseconds = np.nan
    colour, edited = 0, False
    i = skip_json_space(data, i + 1, stop)
    while True:
        name = i + 1
        i = read_string(data, i, stop)
        length = i - 1 - name
        i = -1 if i < 0 else skip_json_space(data, i, stop)
        if i < 0 or i >= stop or data[i] != raw.COLON:
            return -1
        value = skip_json_space(data, i + 1, stop)
        i, number = _read_number_or_skip(data, value, stop, out)
        if i < 0:
            return -1
        if length == 1 and data[name] == _X:
            x = number
        elif length == 1 and data[name] == _Y:
            y = number
        elif length == len(_TIMEDELTA) and raw.is_text(data, name, stop, _TIMEDELTA):
            milliseconds = number
        elif length == len(_COLOR) and raw.is_text(data, name, stop, _COLOR):
            colour = int(number) if number in (BLACK, WHITE) else 0
        elif length == len(_EDITED_KEY) and raw.is_text(data, name, stop, _EDITED_KEY):
            edited = raw.is_text(data, value, stop, TRUE)
        i = skip_json_space(data, i, stop)
        if i >= stop or data[i] != COMMA:
            break
        i = skip_json_space(data, i + 1, stop)
    if i >= stop or data[i] != CLOSE_BRACE or np.isnan(x) or np.isnan(y) or (edited and colour == 0):
        return -1
    if not edited and colour != 0:
        row[TURN], colour = colour, 0
    seconds = milliseconds / 1000 if 0 <= milliseconds <= _LONGEST else np.nan
    _play(_point(x, y, row), colour, seconds, row, out)
    return i + 1


@inline_kernel
def _read_move(data: Bytes, i: Int, stop: Int, row: Indices, out: MovesOut) -> Int:
    """Read [x, y, milliseconds, colour, extra], of which only the first two are required, or an object."""
    if i < stop and data[i] == OPEN_BRACE:
        return _read_move_object(data, i, stop, row, out)
    if i >= stop or data[i] != raw.LEFT:
        return -1
    i, x = _read_number(data, skip_json_space(data, i + 1, stop), stop)
    if i < 0:
        return -1
    i = skip_json_space(data, i, stop)
    if i >= stop or data[i] != COMMA:
        return -1
    i, y = _read_number(data, skip_json_space(data, i + 1, stop), stop)
    if i < 0:
        return -1
    seconds, colour = np.nan, 0
    place = 2
    i = skip_json_space(data, i, stop)
    while i < stop and data[i] == COMMA:
        i = skip_json_space(data, i + 1, stop)
        i, number = _read_number_or_skip(data, i, stop, out)
        if place == 2 and 0 <= number <= _LONGEST:
            seconds = number / 1000
        elif place == 3 and number in (BLACK, WHITE):
            colour = int(number)
        if i < 0:
            return -1
        place += 1
        i = skip_json_space(data, i, stop)
    if i >= stop or data[i] != raw.RIGHT:
        return -1
    _play(_point(x, y, row), colour, seconds, row, out)
    return i + 1


@inline_kernel
def _read_array(data: Bytes, row: Indices, out: MovesOut) -> None:
    stop = row[END]
    i = skip_json_space(data, row[BEGIN] + 1, stop)
    row[BEGIN] = row[raw.MOVE_END]
    if i == stop - 1 and data[i] == raw.RIGHT:
        return
    while row[raw.DROP] == _KEPT:
        i = _read_move(data, i, stop, row, out)
        if i >= 0:
            i = skip_json_space(data, i, stop)
        if i < 0 or i >= stop or (data[i] != COMMA and i != stop - 1) or (i == stop - 1 and data[i] != raw.RIGHT):
            row[raw.DROP] = _UNREADABLE
        elif i == stop - 1:
            return
        else:
            i = skip_json_space(data, i + 1, stop)


@inline_kernel
def _letter(c: Int) -> Int:
    """Return the number of a letter in either case, -1 for a dot, and -2 for anything else."""
    if c == _DOT:
        return -1
    letter = np.int64(c | _LOWER) - _A
    return letter if 0 <= letter < 26 and c >= 65 else -2


@inline_kernel
def _read_letters(text: Bytes, row: Indices, out: MovesOut) -> None:
    """Read moves such as "pddp..!1aa" from text[BEGIN:END]; a point off the board is a pass, as on OGS."""
    i, stop = row[BEGIN], row[END]
    row[BEGIN] = row[raw.MOVE_END]
    while i < stop and row[raw.DROP] == _KEPT:
        colour = 0
        if text[i] == _BANG:
            if raw.is_text(text, i, stop, _UNDEFINED):
                colour, i = _EDITED, i + len(_UNDEFINED)
            elif i + 1 < stop and _ZERO <= text[i + 1] <= _ZERO + WHITE:
                colour, i = int(text[i + 1]) - _ZERO, i + 2
                colour = colour if colour > 0 else _EDITED
            else:
                row[raw.DROP] = _UNREADABLE
                return
        if stop - i < 2:
            row[raw.WARNINGS] |= _TRUNCATED
            return
        x, y = _letter(text[i]), _letter(text[i + 1])
        i += 2
        if x < -1 or y < -1:
            row[raw.DROP] = _UNREADABLE
        elif x >= row[raw.WIDTH] or y >= row[raw.HEIGHT]:
            row[raw.WARNINGS] |= _PASS_AS_TT
            x = y = -1
        elif x < 0 or y < 0:
            x = y = -1
        if row[raw.DROP] == _KEPT and colour != _EDITED:
            _play(_point(x, y, row), colour, np.nan, row, out)
        elif row[raw.DROP] == _KEPT and x >= 0:
            _set_up(y * row[raw.WIDTH] + x, ERASE_BIT, row[raw.MOVE_END] - row[BEGIN], row, out)


@inline_kernel
def _read_stones(text: Bytes, i: Int, stop: Int, game: Int, white: bool, row: Indices, out: MovesOut) -> None:
    """Read stones such as "pddp" of the initial position."""
    while i < stop and row[raw.DROP] == _KEPT:
        x = _letter(text[i])
        y = _letter(text[i + 1]) if i + 1 < stop else -2
        i += 2
        if x < 0 or y < 0 or x >= row[raw.WIDTH] or y >= row[raw.HEIGHT]:
            row[raw.WARNINGS] |= _BAD_SETUP
            continue
        point = y * row[raw.WIDTH] + x
        stamp = 4 * (game + 1) + white
        if out.seen[point] == stamp:
            continue
        if out.seen[point] == stamp - 1 and white:
            row[raw.WARNINGS] |= _SETUP_TWICE
        out.seen[point] = stamp
        _set_up(point, WHITE_BIT if white else 0, 0, row, out)


@kernel
def read_moves(data: Bytes, text: Bytes, rows: npt.NDArray[np.int64], out: MovesOut) -> None:
    """Read setup and moves of each game that has a KIND other than NOTHING.

    Args:
        data: [N] uint8, with the arrays of moves.
        text: [T] uint8, with moves and stones in letters.
        rows: [G, COLUMNS] int64, completed.
        out: Filled in; large enough for a move per 2 bytes of letters and per 5 bytes of arrays, and as many stones.
    """
    moves, setup = 0, 0
    for g in range(len(rows)):
        row = rows[g]
        row[raw.MOVE_END] = moves
        row[raw.SETUP_END] = row[raw.ROOT_SETUP] = setup
        if row[KIND] != NOTHING:
            _read_stones(text, row[BLACK_STONES], row[WHITE_STONES], g, False, row, out)
            _read_stones(text, row[WHITE_STONES], row[STONES_END], g, True, row, out)
        root = row[raw.SETUP_END] - setup
        if row[raw.DROP] == _KEPT and row[KIND] == ARRAY:
            _read_array(data, row, out)
        elif row[raw.DROP] == _KEPT and row[KIND] == LETTERS:
            _read_letters(text, row, out)
        if row[raw.DROP] != _KEPT:
            row[raw.MOVE_END], row[raw.SETUP_END], root = moves, setup, 0
            row[raw.WIDTH] = row[raw.HEIGHT] = row[raw.TO_PLAY] = row[raw.WARNINGS] = 0
            row[raw.HANDICAP] = NO_HANDICAP
        moves, setup, row[raw.ROOT_SETUP] = row[raw.MOVE_END], row[raw.SETUP_END], root


JsonObject = Mapping[str, Any]

_KOMI = {"chinese": 7.5, "aga": 7.5, "japanese": 6.5, "korean": 6.5, "ing": 7.5, "nz": 7.0}
"""Komi of objects without "komi"; with a handicap only its fraction counts."""

SIDES = {"black": "B+", "white": "W+"}
_NOTHING = re.compile(r"0(\.0*)?( points?)?")
_CLOCKS = {
    "byoyomi": ("main_time", "periods", "period_time", "{}x{} byo-yomi"),
    "canadian": ("main_time", "stones_per_period", "period_time", "{}/{} Canadian"),
    "fischer": ("initial_time", "time_increment", "{} fischer"),
    "simple": ("", "per_move", "{} simple"),
    "absolute": ("total_time", ""),
}
"""By system of time, the names of the main time and of the numbers of the overtime, and the overtime in SGF."""

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_DAY, _LAST_DAY = 86_400, 80_000
_TOP_DAN, _TOP_KYU, _PRO_RANKS, _PRO_OFFSET = 10, 30, range(37, 46), 1000


def text_fields_of(game: JsonObject, rules: str, handicap: int) -> dict[str, str]:
    """Return the text fields in SGF's spelling."""
    players = _as_dict(game.get("players"))
    black, white = (_as_dict(players.get(side)) for side in SIDES)
    main_time, overtime = _clock(game)
    bots = [side for side in SIDES if "bot" in _as_text(_as_dict(players.get(side)).get("ui_class")).split()]
    return {
        "black": _as_text(black.get("username")) or _as_text(black.get("name")),
        "white": _as_text(white.get("username")) or _as_text(white.get("name")),
        "black_rank": _rank(black),
        "white_rank": _rank(white),
        "result": _result(game, black, white),
        "komi": _komi(game, rules, handicap),
        "date": _date(game),
        "time": main_time,
        "overtime": overtime,
        "rules": rules,
        "title": _as_text(game.get("game_name")),
        "programs": "; ".join(f"{side}: account" for side in bots),
    }


def _as_dict(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _as_text(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= FIELD_LIMIT else ""


def as_number(value: object) -> float | None:
    """Return a finite number, which may be written as text; else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)) or "_" in str(value)[:32]:
        return None
    try:
        number = float(value[:32] if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _spell(number: float | None) -> str:
    return "" if number is None else f"{number:.12g}"


def _rank(player: JsonObject) -> str:
    """Return "3k", "2d" or "1p" for OGS's number: 30 is 1 dan, and 37 is 1 dan of professionals."""
    number = as_number(player.get("rank"))
    if number is None:
        number = as_number(player.get("ranking"))
    if number is None or not 0 <= number < 2 * _PRO_OFFSET:
        return ""
    is_professional = player.get("professional") or player.get("pro") or number >= _PRO_OFFSET
    rank = int(number % _PRO_OFFSET)
    if is_professional and rank in _PRO_RANKS:
        return f"{rank - _PRO_RANKS.start + 1}p"
    if number < _TOP_KYU:
        return f"{math.ceil(_TOP_KYU - number)}k"
    return f"{min(math.floor(number - _TOP_KYU + 1), _TOP_DAN)}d"


def _komi(game: JsonObject, rules: str, handicap: int) -> str:
    if game.get("komi") is not None:
        return _spell(as_number(game["komi"]))
    komi = _KOMI.get((rules or "japanese").lower())
    return _spell(komi if komi is None or handicap <= 0 else komi % 1)


def _date(game: JsonObject) -> str:
    """Return the day on which a game began, in UTC."""
    seconds = as_number(game.get("start_time"))
    if seconds is not None and 0 < seconds < _DAY * _LAST_DAY:
        return datetime.date.fromordinal(_EPOCH + int(seconds) // _DAY).isoformat()
    try:
        started = datetime.datetime.fromisoformat(_as_text(game.get("started")))
        return (started.astimezone(datetime.UTC) if started.tzinfo else started).date().isoformat()
    except (ValueError, OverflowError):
        return ""


def _clock(game: JsonObject) -> tuple[str, str]:
    control = _as_dict(game.get("time_control"))
    if not control and isinstance(parameters := game.get("time_control_parameters"), str):
        try:
            control = _as_dict(orjson.loads(parameters.encode("utf-8", "replace")))
        except ValueError:
            return "", ""
    system = control.get("system") or control.get("time_control")
    if not isinstance(system, str) or system not in _CLOCKS:
        return "", ""
    main, *overtime, form = _CLOCKS[system]
    values = [_spell(as_number(control.get(name))) for name in overtime]
    main_time = _spell(as_number(control.get(main))) if main else "0" * all(values)
    return main_time, form.format(*values) if overtime and all(values) else ""


def _result(game: JsonObject, black: JsonObject, white: JsonObject) -> str:
    """Return RE; "" for a game that is not finished."""
    if _as_text(game.get("phase")) not in ("", "finished"):
        return ""
    outcome = _as_text(game.get("outcome")).strip().lower().replace("abandonment", "forfeit")
    if game.get("annulled") is True or outcome.startswith("cancel"):
        return "Void"
    winner = _winner(game, black, white)
    if winner == "tie" or (winner == "" and _NOTHING.fullmatch(outcome)):
        return "0"
    side, _, how = outcome.rpartition("+")
    winner = winner or {"b": "black", "w": "white"}.get(side, "")
    if winner not in SIDES:
        return ""
    return result_text(SIDES[winner] + how) if side in ("", winner[0]) else SIDES[winner]


def _winner(game: JsonObject, black: JsonObject, white: JsonObject) -> str:
    """Return "black", "white" or "tie"; "" if unknown."""
    winner = as_number(game.get("winner"))
    if winner is None and (text := _as_text(game.get("winner")).strip().lower()):
        return text
    if winner is not None and winner > 0:
        for side, player in zip(SIDES, (black, white)):
            if winner in map(as_number, (game.get(f"{side}_player_id"), player.get("id"), game.get(side))):
                return side
    lost = [game.get(f"{side}_lost") is True for side in SIDES]
    return "" if lost[0] == lost[1] else "white" if lost[0] else "black"


_Offsets = npt.NDArray[np.int64]

_LETTERS = {19: "djp", 13: "dgj", 9: "ceg"}
"""Coordinates of the star points by board size."""

_STARS = {2: "26", 3: "268", 4: "2680", 5: "26804", 6: "268035", 7: "2680354", 8: "26803517", 9: "268035417"}
"""Star points of fixed handicaps: 0 to 8 in rows from the upper left. The third is the lower right one."""

_OLD_STARS = {2: "08", 3: "028"}
"""Star points of games that OGS took over from the server of that name before 2013 ("ogs_import")."""

_FIXED_RULES = ("japanese", "korean", "aga")
_CHARSET = re.compile(r"(?<![A-Za-z])CA\s*\[[^\]\\]{0,64}\]")


class _OgsHeader(NamedTuple):
    """The content of an object, except for an array of moves.

    Attributes:
        drop: DropReason of an object that is no game.
        first: The player to move first, BLACK or WHITE.
        sgf: The record of an uploaded game, which then is the game; else None.
    """

    drop: DropReason = DropReason.KEPT
    width: int = 0
    height: int = 0
    handicap: int = NO_HANDICAP
    first: int = BLACK
    free: int = 0
    letters: str | None = None
    black: str = ""
    white: str = ""
    warnings: int = 0
    texts: Mapping[str, str] = {}
    sgf: str | None = None


_DROPPED = {drop: _OgsHeader(drop) for drop in DropReason}


def read_ogs(block: RecordBlock) -> ParsedBlock:
    """Read every object of a block. Never fails: unreadable objects give rows with their `DropReason`.

    A member is one object, or a file of lines, each of which is a row, except for empty ones. An object that is not
    JSON, or whose moves are neither an array of arrays or objects nor letters, is `DropReason.UNREADABLE`; one without
    moves, such as a puzzle, `DropReason.NO_RECORD`. A line over 1 MiB, an object over 4 MiB, a game of more than 65,535
    moves and the rest of a member that has more lines than its bytes / 32 + 16 are `DropReason.TOO_LARGE`.
    """
    rows = raw.line_rows(block, detect(block) == OGS_LINES, COLUMNS)
    find_moves(block.data, rows)
    data = block.data.data
    headers = [_read_object(data, row) for row in rows.tolist()]
    games, seconds = _read_moves(block, rows, headers)
    texts = [header.texts for header in headers]
    uploaded = [g for g, header in enumerate(headers) if header.sgf is not None]
    if uploaded:
        games, seconds = _with_uploaded(games, seconds, uploaded, [headers[g].sgf or "" for g in uploaded], texts)
    return ParsedBlock(
        format="ogs", block=block, games=games, text_fields=text_fields(texts),
        index=rows[:, raw.LINE].astype(np.int32), territory=np.empty(0, np.uint16),
        territory_offset=np.zeros(len(rows) + 1, np.int64), codecs=["utf_8"] * len(rows),
        seconds=None if np.isnan(seconds).all() else seconds,
    )  # fmt: skip


_Seconds = npt.NDArray[np.float32]


def _read_moves(
    block: RecordBlock, rows: npt.NDArray[np.int64], headers: Sequence[_OgsHeader]
) -> tuple[GameArrays, _Seconds]:
    """Return games with the moves and the initial stones of the objects, and the seconds of each move or NaN, [M].

    rows: [G, COLUMNS], the objects, completed; headers: [G], the rest of each object.
    """
    text = bytearray()
    rows[:, _INPUTS] = [_moves_input(row, header, text) for row, header in zip(rows.tolist(), headers)]
    is_array = rows[:, KIND] == ARRAY
    capacity = int(np.sum(rows[is_array, END] - rows[is_array, BEGIN])) // 5 + len(text) // 2 + len(rows) + 1
    out = MovesOut(
        moves=np.empty(capacity, np.uint16),
        seconds=np.empty(capacity, np.float32),
        setup=np.empty(len(text) // 2 + len(rows) + 1, np.uint16),
        setup_ply=np.empty(len(text) // 2 + len(rows) + 1, np.uint16),
        seen=np.zeros(raw.MAX_POINTS, np.int64),
        stack=np.empty(DEEPEST, np.int64),
    )
    read_moves(block.data, np.frombuffer(text or bytearray(1), np.uint8), rows, out)
    return raw.to_game_arrays(block, rows, out.moves, out.setup, out.setup_ply), out.seconds[
        : rows[-1, raw.MOVE_END]
    ].copy()


def _moves_input(row: Sequence[int], header: _OgsHeader, text: bytearray) -> tuple[int, ...]:
    """Return the columns _INPUTS of an object, and append its letters to the text."""
    to_play = WHITE if header.first == WHITE else TO_PLAY_UNSET
    of_game = header.width, header.height, to_play, header.handicap, header.warnings, header.drop
    if header.drop or header.sgf is not None:
        return (*of_game, NOTHING, *(0,) * (PLAYED - BEGIN))
    if header.letters is None:
        kind, (begin, end) = ARRAY, _array_of_moves(row)
    else:
        kind, begin = LETTERS, len(text)
        text += header.letters.encode("utf-8", "replace")
        end = len(text)
    black = len(text)
    text += header.black.encode("utf-8", "replace")
    white = len(text)
    text += header.white.encode("utf-8", "replace")
    turn = BLACK if header.free > 1 else header.first
    return (*of_game, kind, begin, end, turn, header.free, black, white, len(text))


def _read_object(data: memoryview, row: Sequence[int]) -> _OgsHeader:
    if row[raw.DROP]:
        return _DROPPED[DropReason(row[raw.DROP])]
    begin, end = _array_of_moves(row)
    start, stop = row[raw.START], row[raw.STOP]
    try:
        value = _parse(b"".join((data[start:begin], b"[]", data[end:stop])) if end else data[start:stop].tobytes())
        if not isinstance(value, dict):
            return _DROPPED[DropReason.NO_RECORD]
        game = value.get("gamedata")
        inner = game if isinstance(game, dict) else value
        owner = inner if "moves" in inner else value
        moves = owner.get("moves")
        is_array = moves == [] and end > 0 and (row[INNER_STOP] == 0) == (owner is value)
        if end and not is_array:
            _parse(data[begin:end].tobytes())  # not the moves of the game, so nothing else reads it
    except (ValueError, RecursionError):
        return _DROPPED[DropReason.UNREADABLE]
    game = value if inner is value else _merge(inner, value)
    sgf = game.get("original_sgf")
    if isinstance(sgf, str) and sgf:
        return _OgsHeader(sgf=sgf)
    if moves is None or (isinstance(sgf, int) and sgf == 0):
        return _DROPPED[DropReason.NO_RECORD]
    if not is_array and not isinstance(moves, str):
        return _DROPPED[DropReason.UNREADABLE]
    return _read_game(game, None if is_array else moves)


def _array_of_moves(row: Sequence[int]) -> tuple[int, int]:
    """Return the start and end of the array of moves of an object; 0 if it has none."""
    inner, outer = (row[INNER_START], row[INNER_STOP]), (row[OUTER_START], row[OUTER_STOP])
    return inner if inner[1] else outer


def _parse(text: bytes) -> Any:
    """Parse JSON. Surrogates without a partner, bytes that are not UTF-8, and NaN are tolerated."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text.decode("utf-8", "replace"))


def _merge(game: JsonObject, outer: JsonObject) -> JsonObject:
    """Return the game with what only the object around it states."""
    merged = {**outer, **{name: value for name, value in game.items() if value is not None or name not in outer}}
    inside, around = _as_dict(game.get("players")), _as_dict(outer.get("players"))
    merged["players"] = {side: {**_as_dict(around.get(side)), **_as_dict(inside.get(side))} for side in SIDES}
    return merged


def _read_game(game: JsonObject, letters: str | None) -> _OgsHeader:
    """Return the header of a game, whose moves are in an array unless they are given as letters."""
    get = game.get
    width, height = _size(get("width")), _size(get("height"))
    if not width or not height:
        return _DROPPED[DropReason.BAD_SIZE]
    warnings = 0 if "width" in game else int(ParseWarning.SIZE_MISSING)
    count = as_number(get("handicap"))
    handicap = NO_HANDICAP if count is None or count != int(count) or not 0 <= count < -NO_HANDICAP else int(count)
    if handicap == NO_HANDICAP and get("handicap") is not None:
        warnings |= ParseWarning.HANDICAP_TEXT
    elif handicap == 1:
        warnings |= ParseWarning.HANDICAP_ONE
    rules = _as_text(get("rules"))
    white_first = get("initial_player") == "white"
    free = _is_free(game, rules)
    black = white = ""
    if "initial_state" in game:
        state = _as_dict(game["initial_state"])
        black, white = _as_text(state.get("black")), _as_text(state.get("white"))
    elif handicap > 0 and not free and (stars := _fixed_stones(width, height, handicap, "ogs_import" in game)):
        black, white_first = stars, True
    else:
        free = free or handicap > 0
    return _OgsHeader(
        width=width, height=height, handicap=handicap, first=WHITE if white_first else BLACK,
        free=max(handicap, 0) if free and not white_first else 0, letters=letters, black=black, white=white,
        warnings=warnings, texts=text_fields_of(game, rules, handicap),
    )  # fmt: skip


def _size(value: object) -> int:
    """Return a number of columns or rows, 19 if it is missing; 0 if it is not within 1 to 25."""
    if value is None:
        return 19
    number = as_number(value)
    return int(number) if number is not None and number == int(number) and 1 <= number <= MAX_SIZE else 0


def _is_free(game: JsonObject, rules: str) -> bool:
    free = game.get("free_handicap_placement")
    if isinstance(free, bool):
        return free
    name = (rules or "japanese").lower()
    return name not in _FIXED_RULES and not (name == "chinese" and "ogs_import" in game)


def _fixed_stones(width: int, height: int, handicap: int, is_old: bool) -> str:
    """Return the stones of a fixed handicap; "" if the board or the number has none."""
    letters = _LETTERS.get(width, "") if width == height else ""
    stars = _OLD_STARS.get(handicap) if is_old else None
    stars = stars or _STARS.get(handicap, "")
    return "".join(letters[int(star) % 3] + letters[int(star) // 3] for star in stars) if letters else ""


def _with_uploaded(
    games: GameArrays,
    seconds: _Seconds,
    uploaded: Sequence[int],
    records: Sequence[str],
    texts: list[Mapping[str, str]],
) -> tuple[GameArrays, _Seconds]:
    """Return games and seconds with those at `uploaded` replaced by SGF records' first games; replace their texts."""
    as_utf8 = [_CHARSET.sub("CA[UTF-8]", record, count=1).encode("utf-8", "replace") for record in records]
    parsed = read_block(as_block(as_utf8))
    decoded = {name: column.to_pylist() for name, column in translate_fox(decode(parsed).text).items()}
    rows = np.searchsorted(parsed.games.block_index, np.arange(len(uploaded)))
    for g, row in zip(uploaded, rows.tolist()):
        texts[g] = {name: column[row] for name, column in decoded.items() if column[row]}
    order = np.arange(len(games))
    order[uploaded] = len(order) + rows
    both = concat([games, parsed.games])
    seconds = np.append(seconds, np.full(len(parsed.games.moves), np.nan, np.float32))
    move_offset, move = _ragged(both.move_offset, order)
    setup_offset, setup = _ragged(both.setup_offset, order)
    per_game = {each.name: getattr(both, each.name) for each in fields(GameArrays)}
    of_line = {name: getattr(games, name) for name in ("member", "block_index", "start", "stop")}
    games = GameArrays(
        **{name: values[order] for name, values in per_game.items() if len(values) == len(both)}
        | {"moves": both.moves[move], "move_offset": move_offset}
        | {"setup": both.setup[setup], "setup_ply": both.setup_ply[setup], "setup_offset": setup_offset}
    )
    return replace(games, **of_line), seconds[move]


def _ragged(offset: _Offsets, order: npt.NDArray[np.int64]) -> tuple[_Offsets, npt.NDArray[np.int64]]:
    """Return offsets and indices of the values of rows in another order."""
    lengths = np.diff(offset)[order]
    ends = np.cumsum(np.append(0, lengths))
    return ends, np.arange(ends[-1]) + np.repeat(offset[order] - ends[:-1], lengths)


FORMAT = RecordFormat((OGS, OGS_LINES), read_ogs)
